"""Whether a model that says 80 % is right in 80 of 100 cases."""

import numpy as np

from image_pipeline.components.evaluation.intervals import LEVEL, wilson_interval

_TIMES = 1000
BINS = 15  # as C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, have it


def bin_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """The number of each probability's bin, of `BINS` equally wide ones: int64 [n].

    A bin has its upper end, not its lower one; 0 is in the first.
    """
    return np.clip(np.ceil(probabilities.astype(np.float64) * BINS) - 1, 0, BINS - 1).astype(int)


def calibration_error(
    bins: np.ndarray, probabilities: np.ndarray, is_right: np.ndarray, weights: np.ndarray
) -> float:
    """The expected calibration error: how far probability and accuracy are apart, on average.

    It is above 0 by chance alone: by less, the more records there are.

    Args:
      bins: int64 [n], as `bin_probabilities` gives them.
      probabilities: float [n], of what was predicted.
      is_right: bool [n], whether that is true.
      weights: int64 [n], how often each counts.

    Returns:
      The mean over the records of the difference, in their bin, between the accuracy and the mean
      probability; NaN without records.
    """
    excess = np.bincount(bins, weights * (is_right - probabilities.astype(np.float64)), BINS)
    total = weights.sum()
    return float(np.abs(excess).sum() / total) if total else np.nan


def find_chance(bins: np.ndarray, probabilities: np.ndarray, seed: int = 0) -> float:
    """The error that a model of the same probabilities has by chance alone.

    Args:
      bins, probabilities: as for `calibration_error`; at least one.
      seed: decides what is drawn.

    Returns:
      What the error stays below, but for one time in 40, if every probability is right.
    """
    records = np.bincount(bins, minlength=BINS)
    expected = np.bincount(bins, probabilities.astype(np.float64), BINS)
    shares = np.minimum(expected / np.maximum(records, 1), 1)
    right = np.random.default_rng(seed).binomial(records, shares, (_TIMES, BINS))
    errors = np.abs(right - expected).sum(axis=1) / records.sum()
    return float(np.quantile(errors, (1 + LEVEL) / 2))


def describe_bins(probabilities: np.ndarray, is_right: np.ndarray) -> list[dict[str, float]]:
    """The reliability curve: of each bin that has records, their number and both means.

    Args:
      probabilities, is_right: as for `calibration_error`.

    Returns:
      Of each bin, by its upper end: `up_to`, `records`, `probability`, `accuracy`, and the ends of
      the accuracy's interval, `low` and `high`.
    """
    bins = bin_probabilities(probabilities)
    found = []
    for number in np.unique(bins).tolist():
        own = bins == number
        records, right = int(own.sum()), int(is_right[own].sum())
        low, high = wilson_interval(right, records)
        found.append(
            {
                **{"up_to": (number + 1) / BINS, "records": records},
                "probability": float(probabilities[own].astype(np.float64).mean()),
                **{"accuracy": right / records, "low": low, "high": high},
            }
        )
    return found
