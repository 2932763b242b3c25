"""Which split a record belongs to: a pure function of its content, stable under adding data.

What is split is the *unit*: sources that must stay together (exact copies, images of one group,
near-duplicates, and whatever these join). Equal hashes mean the same unit.
"""

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


def stratify_splits(
    hashes: np.ndarray, labels: np.ndarray, records: np.ndarray, splits: Mapping[str, float]
) -> np.ndarray:
    """Assigns each unit to a split so that every class gets its exact share in each.

    The units of a class are laid end to end in the order of their hashes, each as long as it has
    records, and the line is cut at the splits' cumulative shares. A unit belongs where one point of
    it lies: at the same fraction of its length for all units of a class. That fraction comes from
    the hash of the class's first unit, so that shares which are no whole numbers of records are
    rounded up in some classes and down in others (systematic sampling with a random start), and
    many small classes do not all round the same way. A class's first unit is in `train`, if there
    is such a split, so that no class is evaluated that was never learned; unless all classes have
    one unit, and nothing would be left to evaluate with.

    Hence the records of a class in a split differ from its share by less than the class's largest
    unit: by less than one record where units are single images. In return, unlike
    `assign_splits`, adding data may move the units near a cut.

    Args:
      hashes: uint64 [n], uniformly distributed, one for each unit.
      labels: int64 [n], the class of each unit.
      records: int64 [n], how many records each unit has, at least 1.
      splits: each split's name and share, adding up to 1.

    Returns:
      int64 [n], positions in `splits`.
    """
    order = np.lexsort((hashes, labels))
    length = records[order]
    _, first, where, units = np.unique(
        labels[order], return_index=True, return_inverse=True, return_counts=True
    )
    end = np.cumsum(length)
    # Read backwards, since the first unit in the order has small leading bits by its selection.
    fraction = (hashes[order[first]].byteswap() / 2.0**64)[where]
    total = np.bincount(where, weights=length)[where]
    point = end - length - (end - length)[first][where] + fraction * length
    codes = np.zeros(len(hashes), np.int64)
    for edge in np.cumsum(list(splits.values()))[:-1]:
        codes[order] += point >= edge * total
    if "train" in splits and (units > 1).any():
        codes[order[first]] = list(splits).index("train")
    return codes


def follow_paths(forced: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Finds the split that paths name: a source's own path, or else another of its unit.

    Args:
      forced: int64 [n], the split that each source's path names, or -1.
      units: uint64 [n], equal for sources of one unit.

    Returns:
      int64 [n], the split; where several paths of a unit name different ones, the others of the
      unit get the one that stands first in the options (usually train). -1 if no path of the unit
      names any.
    """
    is_named = forced >= 0
    if not is_named.any():
        return forced
    named, where = np.unique(units[is_named], return_inverse=True)
    first_split = np.full(len(named), np.iinfo(np.int64).max)
    np.minimum.at(first_split, where, forced[is_named])
    place = np.minimum(np.searchsorted(named, units), len(named) - 1)
    of_unit = np.where(named[place] == units, first_split[place], -1)
    return np.where(is_named, forced, of_unit)
