"""Which split a record belongs to: a pure function of its content, stable under adding data."""

from collections.abc import Mapping

import numpy as np


def assign_splits(hashes: np.ndarray, splits: Mapping[str, float]) -> np.ndarray:
    """Assigns each hash to a split.

    A hash is read as a fraction in [0, 1) and falls into the split whose interval contains it, so
    a record's split never depends on the other records, and equal hashes share a split.

    Args:
      hashes: uint64 [n], uniformly distributed (the first 8 bytes of a SHA-256).
      splits: each split's name and share, adding up to 1.

    Returns:
      int64 [n], positions in `splits`.
    """
    edges = np.cumsum(list(splits.values()))[:-1]
    return np.searchsorted(edges, hashes / 2.0**64, side="right")
