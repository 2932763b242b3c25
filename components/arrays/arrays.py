"""Arrays in files, of which each row is an image: an `.npy` file by itself, or an encoded file.

Blocks of rows that are unpacked together are kept for the rows that are read next: whoever reads
row after row, in a few threads, unpacks each block once, and memory stays bounded.
"""

import collections
import concurrent.futures
import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Hashable

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.arrays.array_process import ArrayProcess
from image_pipeline.components.arrays.stored_array import StoredArray, find_opener, read_nothing
from image_pipeline.components.extras import need
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.images.kind import HEAD_BYTES, tell_kind
from image_pipeline.components.sources.file_names import ending_of
from image_pipeline.components.sources.references import ImageRef

# The function that opens a file, by the module of this room that it is in, which is imported only
# then; and the extra that it needs, if it needs one: then a process of its own reads the file.
OPENERS = {
    ".h5": ("hdf5_arrays.open_hdf5", "hdf5"),
    ".hdf5": ("hdf5_arrays.open_hdf5", "hdf5"),
    ".npy": ("numpy_arrays.open_npy", None),
    ".npz": ("numpy_arrays.open_npz", None),
    ".zarr": ("zarr_arrays.open_zarr", "zarr"),
    ".zarr.zip": ("zarr_arrays.open_zarr", "zarr"),
}
CHANNELS = (1, 3, 4)
"""What the last side of an array of three is, if it is one image, gray or in colours."""

_OPEN_FILES = 64
_MOST_DIMENSIONS, _MOST_ROW_BYTES = 32, 2**48
_MOST_FILE_BYTES = 32 * 2**20  # of each row of an array of files, filled up to the same length
# Rows are prepared in their order, so few blocks are in use at a time; but a block may be large.
_MOST_HELD_BYTES = 128 * 2**20


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
            # Not the error itself: its traceback holds the process that was asked.
            block.set_result(BadImage(error.reason, error.message))
            return
        except BaseException as error:  # It may go better the next time.
            with self._lock:
                del self._blocks[key]
            block.set_exception(error)
            return
        block.set_result(rows)
        with self._lock:
            self._held_bytes += _count_bytes(rows)
            self._drop(key)

    def _drop(self, newest: Hashable) -> None:
        """Forgets the blocks that were not used for longest; those being read do not count yet."""
        for key in list(self._blocks):
            if self._held_bytes <= self._most_bytes:
                return
            if key != newest and self._blocks[key].done():
                found = self._blocks.pop(key).result()
                self._held_bytes -= 0 if isinstance(found, BadImage) else _count_bytes(found)


def _count_bytes(rows: np.ndarray) -> int:
    """What rows take: of files and texts, NumPy counts the references to them only."""
    return rows.nbytes + (sum(map(len, rows.flat)) if rows.dtype.hasobject else 0)


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
    try:
        row = _read_block(array, location.start, max(array.rows_at_once, array.rows_a_question))
    except BadImage:
        if array.rows_a_question <= array.rows_at_once:
            raise
        # What is damaged costs the rows that are unpacked with it, and not what was asked with it.
        row = _read_block(array, location.start, array.rows_at_once)
    if array.holds_files:
        return bytes(row)[:wanted]
    values = np.ascontiguousarray(row, array.dtype.newbyteorder("<"))
    return b"".join((array.header, values.reshape(-1).view(np.uint8).data))[:wanted]


def _read_block(array: StoredArray, row: int, rows: int) -> np.ndarray:
    """A row, which is read with its neighbours if there are any in its block of so many rows."""
    number, at = divmod(row, rows)
    start, stop = row - at, min(row - at + rows, array.rows)
    if rows == 1:
        return array.read(start, stop)[0]
    return BLOCKS.get((array, rows, number), lambda: array.read(start, stop))[at]


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
    if extra is None:
        found = find_opener(opener)(path)
    else:
        need(extra, f"Reading {path!r}")
        found = ArrayProcess(opener, path).open()
    return {array.name: _tell_files(_check(_tell_image(array))) for array in found}


def _tell_image(array: StoredArray) -> StoredArray:
    """The array, as its one row if its last of three sides says that it is one image by itself."""
    *sides, channels = array.shape or (0,)
    if len(sides) != 2 or channels not in CHANNELS or not all(sides) or array.problem:
        return array
    return dataclasses.replace(
        array,
        shape=(1, *array.shape),
        read=lambda start, stop: array.read(0, array.rows)[np.newaxis][start:stop],
        rows_at_once=1,
        rows_a_question=1,
    )


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
