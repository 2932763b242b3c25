"""Arrays in files, of which each row is an image: an `.npy` file by itself, or an encoded file.

Blocks of rows that are unpacked together are kept for the rows that are read next: whoever reads
row after row, in a few threads, unpacks each block once, and memory stays bounded.
"""

import collections
import concurrent.futures
import dataclasses
import functools
import importlib
import itertools
import math
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.archives.file_bytes import FileBytes
from image_pipeline.components.extras import need
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.images.kind import HEAD_BYTES, tell_kind
from image_pipeline.components.images.npy import make_header
from image_pipeline.components.sources.file_names import ending_of
from image_pipeline.components.sources.references import ImageRef

# The function that opens a file, by the module of this room that it is in, which is imported only
# then; and the extra that the module needs, if it needs one.
OPENERS = {
    ".h5": ("hdf5_arrays.open_hdf5", "hdf5"),
    ".hdf5": ("hdf5_arrays.open_hdf5", "hdf5"),
    ".npy": ("numpy_arrays.open_npy", None),
    ".npz": ("numpy_arrays.open_npz", None),
    ".zarr": ("zarr_arrays.open_zarr", "zarr"),
    ".zarr.zip": ("zarr_arrays.open_zarr", "zarr"),
}
_NUMBERS = "biuf"
_OPEN_FILES = 16
_MOST_BLOCK_BYTES = 256 * 2**20
"""What is unpacked at once, unless one row is larger: that is held to `max_file_bytes`."""
_MOST_DIMENSIONS, _MOST_ROW_BYTES = 32, 2**48
_MOST_FILE_BYTES = 32 * 2**20  # of each row of an array of files, filled up to the same length
_MOST_PARTS = 2**16  # chunks that a row may lie in
# Rows are prepared in their order, so few blocks are in use at a time; but a block may be large.
_MOST_HELD_BYTES = 128 * 2**20


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


class BlockCache:
    """The blocks that were used last; a block that several threads ask for is read once."""

    def __init__(self, most_bytes: int = _MOST_HELD_BYTES):
        """Is empty; the newest block is kept however large it is."""
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._lock = threading.Lock()
        self._blocks: collections.OrderedDict[
            Hashable, concurrent.futures.Future[np.ndarray | BadImage]
        ] = collections.OrderedDict()

    def get(self, key: Hashable, read: Callable[[], np.ndarray]) -> np.ndarray:
        """A block's rows.

        Args:
          key: what is read.
          read: reads it; a block that is damaged is not tried again for each of its rows.

        Raises:
          BadImage: if it is damaged.
        """
        with self._lock:
            block, is_new = self._blocks.get(key), key not in self._blocks
            if block is None:
                block = self._blocks[key] = concurrent.futures.Future()
            self._blocks.move_to_end(key)
        if is_new:
            self._fill(key, block, read)
        found = block.result()
        if isinstance(found, BadImage):
            raise BadImage(found.reason, found.message)
        return found

    def _fill(
        self,
        key: Hashable,
        block: concurrent.futures.Future[np.ndarray | BadImage],
        read: Callable[[], np.ndarray],
    ) -> None:
        try:
            rows = read()
        except BadImage as error:
            block.set_result(error)
            return
        except BaseException as error:  # It may go better the next time.
            with self._lock:
                del self._blocks[key]
            block.set_exception(error)
            return
        block.set_result(rows)
        with self._lock:
            self._held_bytes += rows.nbytes
            self._drop(key)

    def _drop(self, newest: Hashable) -> None:
        """Forgets the blocks that were not used for longest; those being read do not count yet."""
        for key in list(self._blocks):
            if self._held_bytes <= self._most_bytes:
                return
            if key != newest and self._blocks[key].done():
                found = self._blocks.pop(key).result()
                self._held_bytes -= 0 if isinstance(found, BadImage) else found.nbytes


BLOCKS = BlockCache()
"""Of all arrays that this process reads."""


def read_row(ref: ImageRef, wanted: int) -> bytes:
    """Reads an image that is a row of an array; see `source_kinds.Reader`."""
    location = ref.location
    assert location is not None
    array = open_arrays(location.file, ref.modified_ns).get(location.inside)
    if array is None or location.start >= array.rows:
        raise BadImage(
            CORRUPT, f"{location.file!r} has no row {location.start} of {location.inside!r} now"
        )
    if wanted < ref.size_bytes and not array.holds_files:
        return array.header[:wanted]  # It is too large, or only its kind is asked for.
    if array.rows_at_once == 1:
        row = array.read(location.start, location.start + 1)[0]
    else:
        number, at = divmod(location.start, array.rows_at_once)
        start = location.start - at
        stop = min(start + array.rows_at_once, array.rows)
        row = BLOCKS.get((array, number), lambda: array.read(start, stop))[at]
    if array.holds_files:
        return bytes(row)[:wanted]
    values = np.ascontiguousarray(row, array.dtype.newbyteorder("<"))
    return b"".join((array.header, values.reshape(-1).view(np.uint8).data))[:wanted]


_opening = threading.Lock()


def open_arrays(path: str, modified_ns: int) -> dict[str, StoredArray]:
    """The arrays in a file, by their names; it stays open for the next that asks.

    Args:
      path: of the file, or its URI.
      modified_ns: when it was changed, so that an older state of it is not used.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is damaged.
      UserError: if its kind is not read from where it is, or needs a package that is missing.
    """
    with _opening:
        return _open_arrays(path, modified_ns)


def reopen_arrays(path: str) -> dict[str, StoredArray]:
    """The arrays of a file as it is now; raises as `open_arrays`."""
    if not files.is_local(path):
        _open_arrays.cache_clear()  # Nothing says cheaply whether what is behind a URI changed.
    return open_arrays(path, modified_at(path))


@functools.lru_cache(_OPEN_FILES)
def _open_arrays(path: str, modified_ns: int) -> dict[str, StoredArray]:
    """`modified_ns` is for the cache only."""
    opener, extra = OPENERS[ending_of(path)]
    if extra is not None:
        need(extra, f"Reading {path!r}")
    module, name = opener.split(".")
    open_ = getattr(importlib.import_module(f"image_pipeline.components.arrays.{module}"), name)
    return {array.name: _tell_files(_check(array)) for array in open_(path)}


def _check(array: StoredArray) -> StoredArray:
    """The array, with a problem if no memory could have a row of it, or NumPy no such shape."""
    if array.problem:
        return array
    problem = ""
    if len(array.shape) > _MOST_DIMENSIONS:
        problem = f"of {len(array.shape)} dimensions, more than {_MOST_DIMENSIONS}"
    elif array.row_bytes >= _MOST_ROW_BYTES or array.rows >= _MOST_ROW_BYTES:
        problem = "of sides that no file has"
    elif not array.dtype.itemsize:
        problem = "of texts of length 0"
    if not problem:
        return array
    return dataclasses.replace(array, shape=(), read=read_nothing, problem=problem)


def _tell_files(array: StoredArray) -> StoredArray:
    """The array, marked if its texts are files: the first one begins as an image does."""
    if array.dtype.kind != "S" or len(array.shape) != 1 or array.problem or not array.rows:
        return array
    if array.row_bytes > _MOST_FILE_BYTES:
        return array
    try:
        first = bytes(array.read(0, 1)[0])
    except BadImage:
        return array
    is_image = tell_kind(first[:HEAD_BYTES]).group == "image"
    return dataclasses.replace(array, holds_files=is_image)


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


def read_chunks(
    shape: Sequence[int],
    chunk: Sequence[int],
    dtype: np.dtype,
    rows: tuple[int, int],
    take: Callable[[tuple[int, ...]], np.ndarray],
) -> np.ndarray:
    """Rows of an array in chunks, from one number up to another; see `StoredArray.read`.

    Args:
      shape: of the array.
      chunk: that of each chunk, those at the edges, too.
      dtype: of the values.
      rows: the first row, and the one after the last.
      take: gives the chunk that begins at these indices.
    """
    start, stop = rows
    found = np.empty((stop - start, *shape[1:]), dtype)
    for corner in list_corners(shape, chunk, start, stop):
        skipped = max(0, start - corner[0])
        at = max(corner[0], start) - start
        ends = [min(c, n - a) for c, n, a in zip(chunk, shape, corner, strict=True)]
        last = min(corner[0] + ends[0], stop) - corner[0]
        part = tuple(slice(a, a + n) for a, n in zip(corner[1:], ends[1:], strict=True))
        window = (slice(skipped, last), *(slice(0, n) for n in ends[1:]))
        found[(slice(at, at + last - skipped), *part)] = take(corner)[window]
    return found


def list_corners(
    shape: Sequence[int], chunk: Sequence[int], start: int, stop: int
) -> Iterator[tuple[int, ...]]:
    """The first indices of the chunks that have some of an array's rows."""
    starts = [range(start - start % chunk[0], stop, chunk[0])]
    starts += [range(0, n, c) for n, c in zip(shape[1:], chunk[1:], strict=True)]
    return itertools.product(*starts)


def count_file_bytes(path: str) -> int:
    """The size of a file; of a folder, of all that is below it."""
    if not (files.is_local(path) and os.path.isdir(path)):
        return files.stat_file(path)[0]
    below = ((folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, name in below)


def modified_at(path: str) -> int:
    """When a file was changed, in nanoseconds; of a folder, the last of its files. 0 for a URI.

    Raises:
      FileNotFoundError: if there is none.
    """
    if not files.is_local(path):
        return 0
    times = [os.stat(path).st_mtime_ns]
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            times += [os.lstat(os.path.join(folder, name)).st_mtime_ns for name in names]
    return max(times)


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
