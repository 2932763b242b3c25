"""The figures that are made of a model's answers, once; whoever shows them reads them.

Plain functions over a table of answers (see `answers`), whatever has made it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from image_pipeline.components.evaluation import class_figures, tag_figures, value_figures
from image_pipeline.components.evaluation.slices import list_slices

_OF_TASK: dict[str, Callable[[pa.Table, Sequence[str]], dict[str, Any]]] = {
    "classification": class_figures.describe_answers,
    "tagging": tag_figures.describe_answers,
    "regression": value_figures.describe_answers,
}
_OF_SLICE: dict[str, Callable[[pa.Table], dict[str, Any]]] = {
    "classification": class_figures.describe_slice,
    "tagging": tag_figures.describe_slice,
    "regression": value_figures.describe_slice,
}
MEASURED = tuple(_OF_TASK)
"""The tasks whose answers have such figures."""


def describe_model(
    task: str, answers: pa.Table, names: Sequence[str], slices: Sequence[str] = ()
) -> dict[str, Any]:
    """All figures of a model's answers.

    Args:
      task: the task's name, one of `MEASURED`.
      answers: a row for each record that counts.
      names: of the classes or tags, in the order of their ids.
      slices: the features of records by which figures are sliced.

    Returns:
      Parts of `facts.Evaluation`: `metrics` and, of at least one record, `constant`, `compared`,
      `answers` and `classes`, with precision, recall and F1 of each class or tag; `slices`.
    """
    found = _OF_TASK[task](answers, names) if len(answers) else {"metrics": {}, "classes": []}
    return {
        **found,
        "slices": {name: list_slices(answers, name, _OF_SLICE[task]) for name in slices},
    }
