"""Two models on the same records: whether one is better by more than chance."""

from typing import Any

import numpy as np
from scipy import stats

from image_pipeline.components.evaluation.intervals import estimate_by_drawing


def compare_answers(is_right: np.ndarray, was_right: np.ndarray) -> dict[str, Any]:
    """Compares which records two models get right (exact test of Q. McNemar, Psychometrika 1947).

    Args:
      is_right: bool [n], the new model's.
      was_right: bool [n], the earlier one's.

    Returns:
      `gained`: the difference of both accuracies, with its interval by bootstrap over the records,
      an `Estimate`. `only_new` and `only_earlier`: how many records only the one of them gets
      right. `p_value`: how likely so uneven numbers, or more uneven ones, are if both models are
      equally good.
    """
    only_new = int((is_right & ~was_right).sum())
    only_earlier = int((~is_right & was_right).sum())
    change = is_right.astype(np.int64) - was_right

    def compute(weights: np.ndarray) -> dict[str, float]:
        return {"gained": float((weights * change).sum() / weights.sum())}

    return {
        **estimate_by_drawing(compute, len(change)),
        **{"only_new": only_new, "only_earlier": only_earlier},
        "p_value": find_p_value(only_new, only_earlier),
    }


def find_p_value(some: int, others: int) -> float:
    """The two-sided p-value of two counts that a fair coin would make; 1 of none."""
    return float(stats.binomtest(some, some + others).pvalue) if some + others else 1.0
