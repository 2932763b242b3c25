"""The figures that are made of a model's answers, once; whoever shows them reads them.

Plain functions over a table of answers (see `answers`), whatever has made it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.evaluation import class_figures, tag_figures, value_figures
from image_pipeline.components.evaluation.answers import name_slice

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
MOST_VALUES = 20
"""More values of one column are not shown one by one: names are joined, numbers put into bins."""
_BINS = 4
_LONG = 10**9  # A number with a fraction, or one as long as this, is shown with four digits.


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


def list_slices(
    answers: pa.Table, name: str, describe: Callable[[pa.Table], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Figures of the records with each value of a column, those of most records first.

    Args:
      answers: the model's answers.
      name: the column's feature.
      describe: makes the figures of some answers.

    Returns:
      For each value (or bin, from the lowest on) `value`, `records` and these figures.
    """
    found = []
    for value, is_in in _divide(answers[name_slice(name)].combine_chunks()):
        rows = answers.filter(pa.array(is_in))
        found.append({"value": value, "records": len(rows), **describe(rows)})
    return found


def _divide(column: pa.Array) -> Iterator[tuple[str, np.ndarray]]:
    """The name of each slice, and which rows are in it, bool [rows]; each row is in one."""
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        is_null |= ~np.isfinite(column.fill_null(0).to_numpy(zero_copy_only=False))
    known = column.filter(pa.array(~is_null))
    is_text = pa.types.is_string(column.type)
    if not is_text and (pa.types.is_floating(column.type) or _count(known) > MOST_VALUES):
        yield from _divide_numbers(column.to_numpy(zero_copy_only=False), is_null)
    else:
        yield from _divide_values(column, _order_values(known), is_null)
    if is_null.any():
        yield "(none)", is_null


def _count(values: pa.Array) -> int:
    return pc.count_distinct(values).as_py()


def _order_values(values: pa.Array) -> list[Any]:
    counts = [(row["counts"], row["values"]) for row in values.value_counts().to_pylist()]
    return [value for _, value in sorted(counts, key=lambda each: (-each[0], each[1]))]


def _divide_values(
    column: pa.Array, values: list[Any], is_null: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    left = ~is_null
    for value in values[:MOST_VALUES]:
        is_in = pc.equal(column, value).fill_null(False).to_numpy(zero_copy_only=False)
        left &= ~is_in
        yield str(value), is_in
    if left.any():
        yield f"({len(values) - MOST_VALUES:,} others)", left


def _divide_numbers(values: np.ndarray, is_null: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Bins of about as many rows each; equal numbers are in the same one."""
    known = values[~is_null]
    if not len(known):
        return
    ends = np.unique(np.quantile(known, np.arange(1, _BINS + 1) / _BINS, method="inverted_cdf"))
    number = np.searchsorted(ends, np.where(is_null, ends[0], values))
    for each in range(len(ends)):
        is_in = (number == each) & ~is_null
        least, most = values[is_in].min(), values[is_in].max()
        yield _say(least) if least == most else f"{_say(least)} to {_say(most)}", is_in


def _say(number: float) -> str:
    return f"{int(number):,}" if number % 1 == 0 and abs(number) < _LONG else f"{number:.4g}"
