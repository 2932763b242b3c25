"""How sure a figure is: 95 % intervals of shares, and of whatever else records say together."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from image_pipeline.components.evaluation.metrics import Estimate

LEVEL = 0.95
_LEAST_TIMES, _MOST_TIMES = 200, 1000
# So many draws in all: a second or two for any number of records.
_MOST_DRAWS = 10**8


def wilson_interval(right: int, total: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share, from counts (E. B. Wilson, JASA 22, 1927).

    Unlike the mean plus and minus two standard errors, it stays within 0 and 1, and is not a single
    point if all or none are right.
    """
    if total == 0:
        return 0.0, 1.0
    interval = stats.binomtest(right, total).proportion_ci(LEVEL, method="wilson")
    return float(interval.low), float(interval.high)


def estimate_share(right: int, total: int) -> Estimate:
    """A share and Wilson's interval; NaN, between 0 and 1, of nothing."""
    return Estimate(right / total if total else np.nan, *wilson_interval(right, total))


def estimate_f1(right: int, wrong: int) -> Estimate:
    """F1 of a class, and its interval; NaN without one, of nothing.

    Of the records that are of the class or taken for it, the share `s` that is both makes
    F1 = 2s / (1 + s), which grows with `s`. So the ends are those of Wilson's for `s`. Few records
    drawn again (a single one that is right, say) would seem to be certain.

    Args:
      right: how many records are of the class and taken for it.
      wrong: how many are only one of both.
    """
    if right + wrong == 0:
        return Estimate(np.nan)
    low, high = wilson_interval(right, right + wrong)
    return Estimate(2 * right / (2 * right + wrong), 2 * low / (1 + low), 2 * high / (1 + high))


def score_class(right: int, predicted: int, true: int) -> dict[str, Estimate]:
    """Precision, recall and F1 of a class or tag, from its counts of records."""
    return {
        "precision": estimate_share(right, predicted),
        "recall": estimate_share(right, true),
        "F1": estimate_f1(right, true + predicted - 2 * right),
    }


def estimate_by_drawing(
    compute: Callable[[np.ndarray], Mapping[str, float]], records: int, seed: int = 0
) -> dict[str, Estimate]:
    """Metrics of all records, with intervals by bootstrap (B. Efron, Ann. Statist. 7, 1979).

    As many records are drawn with replacement, many times over; the interval is between the 2.5th
    and the 97.5th percentile of what they give (where that is a number); there is none of what is
    always the same.

    Args:
      compute: makes metrics, by name, of int64 [records], how often each record counts.
      records: how many there are; with none, there are no metrics.
      seed: decides what is drawn.

    Returns:
      The metrics of all records counted once, by name.
    """
    if records == 0:
        return {}
    values = dict(compute(np.ones(records, np.int64)))
    random = np.random.default_rng(seed)
    times = int(np.clip(_MOST_DRAWS // records, _LEAST_TIMES, _MOST_TIMES))
    drawn = np.empty((times, len(values)))
    for number in range(times):
        rows = random.integers(0, records, records)
        found = compute(np.bincount(rows, minlength=records))
        drawn[number] = [found[name] for name in values]
    return {
        name: Estimate(float(value), *_find_ends(column))
        for (name, value), column in zip(values.items(), drawn.T, strict=True)
    }


def reflect(estimate: Estimate, by_chance: float = 0.0) -> Estimate:
    """The interval of a distance, from 0 on, that chance alone makes greater.

    What is drawn of the records is further off by as much again as they are themselves. So the ends
    are taken as far below the figure as the drawn ones are above it (the "basic" bootstrap), though
    never so far that the figure itself is left out.

    Args:
      estimate: as it was drawn.
      by_chance: what is measured is seldom greater than this if there is no distance at all; the
        interval of a figure that is not begins at 0.
    """
    value = estimate.value
    if estimate.interval is None or value is None:
        return estimate
    low, high = (2 * value - end for end in reversed(estimate.interval))
    low = 0.0 if value <= by_chance else max(0.0, min(low, value))
    return Estimate(value, low, max(high, value))


def _find_ends(drawn: np.ndarray) -> tuple[float, float] | tuple[None, None]:
    numbers = drawn[np.isfinite(drawn)]
    if not len(numbers) or numbers.min() == numbers.max():
        return None, None  # What never varies, a single record's figure say, tells nothing.
    low, high = np.quantile(numbers, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


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
