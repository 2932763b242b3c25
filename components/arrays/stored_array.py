"""An array in a file, and what those who open files of arrays share."""

import dataclasses
import functools
import importlib
import math
from collections.abc import Callable, Sequence

import numpy as np

from image_pipeline.components.archives.file_bytes import FileBytes
from image_pipeline.components.images.npy import make_header

_NUMBERS = "biuf"
_MOST_BLOCK_BYTES = 256 * 2**20
"""What is unpacked at once, unless one row is larger: that is held to `max_file_bytes`."""
_MOST_PARTS = 2**16  # chunks that a row may lie in


@dataclasses.dataclass(frozen=True, eq=False)
class StoredArray:
    """An array in a file.

    Attributes:
      path: of the file, or its URI.
      name: of the array in it, such as `train/X`.
      shape: with the rows first.
      dtype: of its values; `object` for texts, and for files.
      read: its rows from one number up to another, [n, *shape[1:]]; raises BadImage if they are
        damaged, and OSError.
      rows_at_once: how many rows are unpacked together; 1 if each can be read by itself.
      rows_a_question: how many rows are best read by one call, since each call costs something.
      offset: where in the file its rows lie as they are, one after another; None if they do not.
      holds_files: whether each row is a file, such as a JPEG's bytes.
      read_sizes: the files' sizes in bytes, of rows as for `read`.
      problem: why it cannot be read at all; empty if it can.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[int, int], np.ndarray]
    rows_at_once: int = 1
    rows_a_question: int = 1
    offset: int | None = None
    holds_files: bool = False
    read_sizes: Callable[[int, int], Sequence[int]] | None = None
    problem: str = ""

    @property
    def rows(self) -> int:
        """How many there are; 0 of a single value."""
        return self.shape[0] if self.shape else 0

    @property
    def row_bytes(self) -> int:
        """How many bytes the values of a row take."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def holds_images(self) -> bool:
        """Whether a row can be an image."""
        is_picture = len(self.shape) >= 3 and self.dtype.kind in _NUMBERS
        return not self.problem and (self.holds_files or is_picture)

    @functools.cached_property
    def header(self) -> bytes:
        """What an `.npy` file with one row begins with."""
        return make_header(self.dtype, self.shape[1:])

    def count_bytes(self, start: int, stop: int) -> Sequence[int]:
        """The size of each row's image, as `read_row` passes it on."""
        if self.read_sizes is not None:
            return self.read_sizes(start, stop)
        if self.holds_files:
            return [len(file) for file in self.read(start, stop)]
        return [len(self.header) + self.row_bytes] * (stop - start)


def find_opener(name: str) -> Callable[..., list[StoredArray]]:
    """The function that opens a file, by its name in `OPENERS`."""
    module, function = name.split(".")
    return getattr(importlib.import_module(f"{__package__}.{module}"), function)


def find_misfit(shape: Sequence[int], chunk: Sequence[int], value_bytes: int) -> str:
    """Why an array in chunks is not read: they are too large, or too many; empty if it can be."""
    chunk_bytes = value_bytes * math.prod(chunk)
    if chunk_bytes > max(_MOST_BLOCK_BYTES, value_bytes * math.prod(shape[1:])):
        sides = ", ".join(map(str, chunk))
        return (
            f"in chunks of [{sides}], {chunk_bytes:,} bytes each, and more than "
            f"{_MOST_BLOCK_BYTES:,} are not unpacked at once; write it in smaller chunks"
        )
    parts = math.prod(-(-n // c) for n, c in zip(shape[1:], chunk[1:], strict=True))
    if parts > _MOST_PARTS:
        return (
            f"in chunks of which each row has {parts:,}, and more than {_MOST_PARTS:,} are not put "
            "together; write it in larger chunks"
        )
    return ""


def read_range(
    source: FileBytes, offset: int, shape: tuple[int, ...], dtype: np.dtype
) -> Callable[[int, int], np.ndarray]:
    """Reads rows that lie one after another in a file, from a byte on; see `StoredArray.read`."""
    row_bytes = dtype.itemsize * math.prod(shape[1:])

    def read(start: int, stop: int) -> np.ndarray:
        data = source.read(offset + start * row_bytes, (stop - start) * row_bytes)
        return np.frombuffer(data, dtype).reshape(stop - start, *shape[1:])

    return read


def read_nothing(start: int, stop: int) -> np.ndarray:
    """Stands where an array with a problem has its `read`."""
    raise AssertionError("an array with a problem is not read")
