"""The metrics that are made of a model's answers, once; whoever shows them reads them.

Plain functions over a table of answers (see `answers`), whatever has made it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.evaluation import class_metrics, tag_metrics
from image_pipeline.components.evaluation.answers import (
    BASELINE_PREDICTION,
    ID,
    NAME,
    PREDICTION,
    VALUE,
    name_slice,
)
from image_pipeline.components.evaluation.intervals import estimate_by_drawing
from image_pipeline.components.evaluation.metrics import Estimate

SQUARED, ABSOLUTE = "mean squared error", "mean absolute error"
GAINED = f"{SQUARED} gained"  # by this model over the earlier one: less than 0 is better
MOST_WORST = 100
MOST_VALUES = 20
"""More values of one column are not shown one by one: names are joined, numbers put into bins."""
_BINS = 4
_LONG = 10**9  # A number with a fraction, or one as long as this, is shown with four digits.


def describe_values(answers: pa.Table, names: Sequence[str]) -> dict[str, Any]:
    """The metrics of all predicted numbers; see `describe_model`."""
    values = answers[VALUE].combine_chunks().to_numpy().astype(np.float64)
    rows = np.argsort(-np.abs(_find_errors(answers)), kind="stable")[:MOST_WORST]
    worst = answers.select([ID, NAME, VALUE, PREDICTION]).take(rows).to_pylist()
    return {
        "metrics": _estimate_errors(answers),
        "constant": {"answer": f"{values.mean():.5g}", "value": float(values.var())},
        "classes": [],
        "answers": {"worst": worst},
    }


def describe_values_of_slice(answers: pa.Table) -> dict[str, Any]:
    """The mean squared error of some images."""
    return {"figure": _estimate_errors(answers)[SQUARED]}


def _estimate_errors(answers: pa.Table) -> dict[str, Estimate]:
    """Both means, and how the squared one changed from the earlier model's, if it was asked."""
    errors = _find_errors(answers)
    of_images = {SQUARED: errors**2, ABSOLUTE: np.abs(errors)}
    if not answers[BASELINE_PREDICTION].null_count:
        of_images[GAINED] = errors**2 - _find_errors(answers, BASELINE_PREDICTION) ** 2

    def compute(weights: np.ndarray) -> dict[str, float]:
        total = weights.sum()
        return {name: float((weights * each).sum() / total) for name, each in of_images.items()}

    return estimate_by_drawing(compute, len(errors))


def _find_errors(answers: pa.Table, answer: str = PREDICTION) -> np.ndarray:
    true, predicted = (answers[name].combine_chunks().to_numpy() for name in (VALUE, answer))
    return predicted.astype(np.float64) - true


_Describe = Callable[[pa.Table, Sequence[str]], dict[str, Any]]
_DescribeSlice = Callable[[pa.Table], dict[str, Any]]
_OF_TASK: dict[str, tuple[_Describe, _DescribeSlice]] = {
    "classification": (class_metrics.describe_answers, class_metrics.describe_slice),
    "tagging": (tag_metrics.describe_answers, tag_metrics.describe_slice),
    "regression": (describe_values, describe_values_of_slice),
}
MEASURED = tuple(_OF_TASK)
"""The tasks whose answers have such metrics."""


def describe_model(
    task: str, answers: pa.Table, names: Sequence[str], slices: Sequence[str] = ()
) -> dict[str, Any]:
    """All metrics of a model, from its answers.

    Returns:
      Parts of `facts.Evaluation`: `metrics` and, of at least one record, `constant`, `compared`,
      `answers` and `classes`, with precision, recall and F1 of each class or tag; `slices`.
    """
    describe, describe_slice = _OF_TASK[task]
    found = describe(answers, names) if len(answers) else {"metrics": {}, "classes": []}
    return found | {"slices": {name: list_slices(answers, name, describe_slice) for name in slices}}


def list_slices(
    answers: pa.Table, name: str, describe: Callable[[pa.Table], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Metrics of the records with each value of a column, those of most records first.

    Returns:
      For each value (or bin, from the lowest on) `value`, `records` and these metrics.
    """
    found = []
    for value, is_in in _divide(answers[name_slice(name)].combine_chunks()):
        rows = answers.filter(pa.array(is_in))
        found.append({"value": value, "records": len(rows), **describe(rows)})
    return found


def _divide(column: pa.Array) -> Iterator[tuple[str, np.ndarray]]:
    """The name of each slice, and which rows are in it, bool [rows]; each row is in one."""
    is_float = pa.types.is_floating(column.type)
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    if is_float:
        is_null |= ~np.isfinite(column.fill_null(0).to_numpy(zero_copy_only=False))
    known = column.filter(pa.array(~is_null))
    counts = [] if is_float else known.value_counts().to_pylist()
    if pa.types.is_string(column.type) or (not is_float and len(counts) <= MOST_VALUES):
        left = ~is_null
        ordered = sorted(counts, key=lambda each: (-each["counts"], each["values"]))
        for each in ordered[:MOST_VALUES]:
            is_in = pc.equal(column, each["values"]).fill_null(False)
            is_in = is_in.to_numpy(zero_copy_only=False)
            left &= ~is_in
            yield str(each["values"]), is_in
        if left.any():
            yield f"({len(counts) - MOST_VALUES:,} others)", left
    elif len(known):
        # Bins of about as many rows each; equal numbers are in the same one.
        values, shares = known.to_numpy(zero_copy_only=False), np.arange(1, _BINS + 1) / _BINS
        ends = np.unique(np.quantile(values, shares, method="inverted_cdf"))
        number = np.full(len(column), len(ends))
        number[~is_null] = np.searchsorted(ends, values)
        for each in range(len(ends)):
            own = values[number[~is_null] == each]
            least, most = _say(own.min()), _say(own.max())
            yield least if own.min() == own.max() else f"{least} to {most}", number == each
    if is_null.any():
        yield "(none)", is_null


def _say(number: float) -> str:
    return f"{int(number):,}" if number % 1 == 0 and abs(number) < _LONG else f"{number:.4g}"
