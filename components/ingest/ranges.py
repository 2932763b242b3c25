"""Rows of a fixed width, spread over files by ranges of a key, so that no process holds them all.

Whoever asks for a range gets all rows with these keys, however many others there are: about half a
million, if keys are hashes or numbers, and more only where that many have one key.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

RANGE_ROWS = 500_000


class Ranges:
    """Rows in a range file each."""

    def __init__(self, folder: str, dtype: np.dtype, rows: int):
        """Makes empty ranges.

        Args:
          folder: on this machine's disk; whoever made it deletes it.
          dtype: of a row; the rows of a range are given in the order of its first field.
          rows: how many there are at most.
        """
        self._folder, self._dtype = tempfile.mkdtemp(dir=folder), dtype
        (self._key, *_) = dtype.names or ()
        self._count = max(1, -(-rows // RANGE_ROWS))

    def add_by_hash(self, rows: np.ndarray, hashes: np.ndarray) -> None:
        """Adds rows by uniformly distributed hashes (uint64 [n]): ranges are in their order."""
        count = np.uint64(self._count)
        self._add(rows, ((hashes >> np.uint64(32)) * count >> np.uint64(32)).astype(np.int64))

    def add_by_number(self, rows: np.ndarray, numbers: np.ndarray) -> None:
        """Adds rows by numbers (int64 [n]): range i is for those from i * `RANGE_ROWS` on."""
        self._add(rows, numbers // RANGE_ROWS)

    def _add(self, rows: np.ndarray, ranges: np.ndarray) -> None:
        order = np.argsort(ranges, kind="stable")
        numbers, starts = np.unique(ranges[order], return_index=True)
        parts = np.split(rows[order], starts[1:])
        for number, part in zip(numbers.tolist(), parts[: len(numbers)], strict=True):
            with open(self._path(number), "ab") as file:
                file.write(part.data)  # NumPy's `tofile` does not say why a disk takes no more.

    def __iter__(self) -> Iterator[np.ndarray]:
        """The rows of each range in turn, each in the order of their first field."""
        for number in range(self._count):
            rows = self._read(number)
            yield rows[np.argsort(rows[self._key], kind="stable")]

    def drain(self) -> Iterator[np.ndarray]:
        """As iteration does, and deletes the rows as they are given."""
        for number, rows in enumerate(self):
            if len(rows):
                os.remove(self._path(number))
            yield rows

    def between(self, first: int, end: int) -> Iterator[np.ndarray]:
        """Those with numbers, which are their first field, from `first` on before `end`.

        They are in no order.
        """
        for number in range(first // RANGE_ROWS, -(-end // RANGE_ROWS)):
            rows = self._read(number)
            yield rows[(rows[self._key] >= first) & (rows[self._key] < end)]

    def _read(self, number: int) -> np.ndarray:
        if not os.path.exists(self._path(number)):
            return np.empty(0, self._dtype)
        return np.fromfile(self._path(number), self._dtype)

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, str(number))


def select(rows: np.ndarray, dtype: np.dtype, **columns: Any) -> np.ndarray:
    """Rows with other fields: those given, and of all others what the rows have."""
    selected = np.empty(len(rows), dtype)
    for name in dtype.names or ():
        selected[name] = columns[name] if name in columns else rows[name]
    return selected
