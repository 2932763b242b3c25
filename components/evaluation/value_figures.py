"""Figures of predicted numbers: how far they are off."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from image_pipeline.components.evaluation.answers import (
    BASELINE_PREDICTION,
    ID,
    NAME,
    PREDICTION,
    VALUE,
)
from image_pipeline.components.evaluation.intervals import estimate_by_drawing
from image_pipeline.components.evaluation.metrics import Estimate

SQUARED, ABSOLUTE = "mean squared error", "mean absolute error"
GAINED = f"{SQUARED} gained"  # by this model over the earlier one: less than 0 is better
MOST_WORST = 100


def describe_answers(answers: pa.Table, names: Sequence[str]) -> dict[str, Any]:
    """The figures of all images; see `figures.describe_model`."""
    errors = _find_errors(answers)
    values = answers[VALUE].combine_chunks().to_numpy().astype(np.float64)
    rows = np.argsort(-np.abs(errors), kind="stable")[:MOST_WORST]
    worst = answers.select([ID, NAME, VALUE, PREDICTION]).take(rows).to_pylist()
    return {
        "metrics": _estimate(errors) | _compare(answers, errors),
        "constant": {"answer": f"{values.mean():.5g}", "value": float(values.var())},
        "classes": [],
        "answers": {"worst": worst},
    }


def describe_slice(answers: pa.Table) -> dict[str, Any]:
    """The mean squared error of some images."""
    return {"figure": _estimate(_find_errors(answers))[SQUARED]}


def _compare(answers: pa.Table, errors: np.ndarray) -> dict[str, Estimate]:
    """How much the squared error changed from the earlier model's, if it was asked."""
    if answers[BASELINE_PREDICTION].null_count:
        return {}
    changes = errors**2 - _find_errors(answers, BASELINE_PREDICTION) ** 2

    def compute(weights: np.ndarray) -> dict[str, float]:
        return {GAINED: float((weights * changes).sum() / weights.sum())}

    return estimate_by_drawing(compute, len(changes))


def _find_errors(answers: pa.Table, answer: str = PREDICTION) -> np.ndarray:
    true, predicted = (answers[name].combine_chunks().to_numpy() for name in (VALUE, answer))
    return predicted.astype(np.float64) - true


def _estimate(errors: np.ndarray) -> dict[str, Any]:
    def compute(weights: np.ndarray) -> Mapping[str, float]:
        total = weights.sum()
        return {
            SQUARED: float((weights * errors**2).sum() / total),
            ABSOLUTE: float((weights * np.abs(errors)).sum() / total),
        }

    return estimate_by_drawing(compute, len(errors))
