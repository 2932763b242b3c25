"""How well a sequence is shuffled: metrics beside those of an ideal permutation."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class ShuffleQuality:
    """Four metrics of one epoch's order; `ideal_quality` gives their expected values.

    Attributes:
      rank_correlation: Spearman's, of the order with the stored order, -1 to 1.
      repeated_neighbours: share of neighbouring pairs that are neighbours in the next epoch too.
      classes_in_batch: distinct classes in a batch, on average.
      label_run: length of a run of one class, on average.
    """

    rank_correlation: float
    repeated_neighbours: float
    classes_in_batch: float
    label_run: float


def measure_quality(
    ids: np.ndarray, next_ids: np.ndarray, labels: np.ndarray, batch_size: int
) -> ShuffleQuality:
    """Measures an epoch's order.

    Args:
      ids: int64 [n], places in the stored order, in the order of the epoch.
      next_ids: int64 [m], the same of the next epoch.
      labels: int [records], the class of each place in the stored order.
      batch_size: for `classes_in_batch`; a last, smaller batch is left out.

    Returns:
      The metrics.
    """
    return ShuffleQuality(
        rank_correlation(ids),
        repeated_neighbours(ids, next_ids),
        classes_in_batch(labels[ids], batch_size),
        label_run(labels[ids]),
    )


def ideal_quality(labels: np.ndarray, batch_size: int) -> ShuffleQuality:
    """The expected metrics of uniformly random permutations, for records of these classes.

    Two given records are neighbours in 2 of n permutations. A batch is a draw without replacement,
    so a class with c of n records is absent with probability (n-c)! (n-b)! / (n-c-b)! n!. And two
    neighbours are of one class with probability sum of c (c-1) / n (n-1).
    """
    n = len(labels)
    counts = np.unique(labels, return_counts=True)[1].astype(float)
    drawn = np.arange(batch_size)[:, None]
    is_absent = np.prod(np.maximum(n - counts - drawn, 0) / (n - drawn), axis=0)
    is_same = (counts * (counts - 1)).sum() / (n * (n - 1))
    runs = 1 + (n - 1) * (1 - is_same)
    return ShuffleQuality(0.0, 2 / n, float((1 - is_absent).sum()), n / runs)


def rank_correlation(ids: np.ndarray) -> float:
    """Spearman's rank correlation of a sequence with the sorted one.

    0 for a shuffle (with standard deviation 1 / sqrt(n - 1)), 1 for the stored order. Equal ids
    have their mean rank (C. Spearman, 1904).

    Args:
      ids: int64 [n], n at least 2, not all equal.
    """
    _, number, counts = np.unique(ids, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    return float(np.corrcoef(mean_ranks[number], np.arange(len(ids)))[0, 1])


def repeated_neighbours(first: np.ndarray, second: np.ndarray) -> float:
    """Share of the neighbouring pairs of `first` (int64 [n]) that stand together in `second`, too.

    Either way round. 2 / n for two unrelated permutations, 1 for two equal ones.
    """
    return float(np.isin(_neighbours(first), _neighbours(second)).mean())


def _neighbours(ids: np.ndarray) -> np.ndarray:
    """A number for each neighbouring pair, the same either way round: int64 [n - 1]."""
    low, high = np.minimum(ids[1:], ids[:-1]), np.maximum(ids[1:], ids[:-1])
    return high * (high + 1) // 2 + low  # Cantor's pairing: unique for ids up to 2**31.


def classes_in_batch(labels: np.ndarray, batch_size: int) -> float:
    """Mean number of distinct classes in the full batches of a sequence of labels (int [n])."""
    batches = labels[: len(labels) // batch_size * batch_size].reshape(-1, batch_size)
    changes = np.diff(np.sort(batches, axis=1), axis=1) != 0
    return float(1 + changes.sum(axis=1).mean())


def label_run(labels: np.ndarray) -> float:
    """Mean length of the runs of equal labels in a sequence (int [n])."""
    return len(labels) / (1 + int((labels[1:] != labels[:-1]).sum()))


def repeats_in_batches(ids: np.ndarray, batch_size: int) -> float:
    """Share of the full batches of a sequence (int [n]) that hold an id twice."""
    batches = ids[: len(ids) // batch_size * batch_size].reshape(-1, batch_size)
    ordered = np.sort(batches, axis=1)
    return float((ordered[:, 1:] == ordered[:, :-1]).any(axis=1).mean())


def min_distance(ids: np.ndarray) -> int:
    """The least distance of two equal ids in a sequence (int [n]); its length if there are none."""
    order = np.argsort(ids, kind="stable")
    is_equal = ids[order][1:] == ids[order][:-1]
    return int(np.diff(order)[is_equal].min(initial=len(ids)))
