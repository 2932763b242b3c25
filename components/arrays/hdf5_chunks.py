"""Where the chunks of an HDF5 data set are in its file."""

import array
import functools
import threading
from typing import Any

import h5py
import numpy as np

from image_pipeline.components.images.bad_image import CORRUPT, BadImage

HDF5_LOCK = threading.Lock()
"""Held by whoever asks HDF5 for anything."""


class ChunkList:
    """Where each chunk of a data set is, in 32 bytes of memory.

    HDF5 goes through all chunks to find one, which takes 25 ms where there are 100,000; so it is
    asked for all of them once, when the first is wanted.
    """

    def __init__(self, item: h5py.Dataset):
        """Asks nothing yet."""
        self._item, self._chunk = item, item.chunks
        self._counts = [-(-n // c) for n, c in zip(item.shape, item.chunks, strict=True)]

    def find(self, corner: tuple[int, ...]) -> tuple[int, int, int] | None:
        """Finds a chunk by the indices of its first value.

        Returns:
          Its first byte, its size, and a bit for each filter that it did not go through; None if it
          was never written.

        Raises:
          BadImage: if it is not known, since the file is damaged.
        """
        numbers, places, problem = self._listed
        number = self._count(corner)
        at = int(np.searchsorted(numbers, number))
        if at < len(numbers) and numbers[at] == number:
            start, size, skipped_filters = places[at].tolist()
            return start, size, skipped_filters
        if problem:
            raise BadImage(CORRUPT, f"{self._item.name!r} cannot be read ({problem})")
        return None

    def _count(self, corner: tuple[int, ...]) -> int:
        """A chunk's number, as if all were written; the last dimension counts fastest."""
        number = 0
        for at, size, count in zip(corner, self._chunk, self._counts, strict=True):
            number = number * count + at // size
        return number

    @functools.cached_property
    def _listed(self) -> tuple[np.ndarray, np.ndarray, str]:
        """Numbers of chunks, sorted; where they are, int64 [chunks, 3]; what cut the list short."""
        listed, problem = array.array("q"), ""

        def add(info: Any) -> None:
            number = self._count(info.chunk_offset)
            listed.extend((number, info.byte_offset, info.size, info.filter_mask))

        try:
            with HDF5_LOCK:
                self._item.id.chunk_iter(add)
        except (OSError, RuntimeError, ValueError) as error:
            problem = str(error)
        found = np.frombuffer(listed, np.int64).reshape(-1, 4)
        rows = found[np.argsort(found[:, 0], kind="stable")]
        return np.ascontiguousarray(rows[:, 0]), rows[:, 1:], problem
