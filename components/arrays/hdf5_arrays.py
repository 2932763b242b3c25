"""HDF5 data sets as arrays of rows.

HDF5 has one lock for all of a process. So only what a data set is and where its chunks lie is asked
of it; bytes are read from the file itself and unpacked here, by as many threads as there are.
"""

import atexit
import functools
import itertools
import os
import weakref
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import h5py
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.archives.file_bytes import FileBytes
from image_pipeline.components.arrays.array_blocks import BLOCKS
from image_pipeline.components.arrays.arrays import StoredArray, read_nothing, read_range
from image_pipeline.components.arrays.hdf5_chunks import HDF5_LOCK, ChunkList
from image_pipeline.components.arrays.hdf5_heap import POINTER, Heap
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

_DEFLATE, _SHUFFLE = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE
# Of data sets that only HDF5 itself can read: rows that are read together.
_BLOCK_BYTES = 4 * 2**20
# Bytes of an address, and of a length.
_USUAL_SIZES = (8, 8)

_Read = Callable[[int, int], np.ndarray]


def open_hdf5(path: str) -> list[StoredArray]:
    """The data sets of a file, in the order of their names, such as `train/X`.

    Raises:
      OSError: if it is no HDF5 file, or is cut.
      ValueError: if what it holds cannot be listed.
    """
    found: list[StoredArray] = []
    with HDF5_LOCK:
        # By its name, it would be locked against changes for as long as it is kept open.
        file = h5py.File(files.open_input(path), "r")
        heap = Heap(FileBytes(path), file.userblock_size, file.id.get_filesize())

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                found.append(_describe(path, name, item, heap))

        def visit_link(name: str, link: Any) -> None:
            if isinstance(link, h5py.ExternalLink):
                found.append(_describe_link(path, name, link))

        try:
            file.visititems(visit)
            file.visititems_links(visit_link)
        except (
            RuntimeError,
            KeyError,
            TypeError,
            SystemError,
        ) as error:  # HDF5's, as h5py names them.
            newest = h5py.version.hdf5_version
            known = f"it is damaged, or of a newer form than HDF5 {newest} reads"
            raise ValueError(f"{known} ({error})") from error
    return found


_OPEN: weakref.WeakSet[h5py.Dataset] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """HDF5 closes what is open after the interpreter's end, calls it for that, and crashes."""
    with HDF5_LOCK:
        for item in list(_OPEN):
            if item:  # Not closed with another of its file.
                item.file.close()


def _describe(path: str, name: str, item: h5py.Dataset, heap: Heap) -> StoredArray:
    _OPEN.add(item)
    shape, source = item.shape or (), heap.source
    dtype, problem, library = item.dtype, _find_problem(item), _by_library(item)
    describe = functools.partial(StoredArray, path, name, shape)
    if problem or not shape:
        return describe(np.dtype("u1"), library, problem=problem)
    if h5py.check_vlen_dtype(dtype) == np.uint8:
        pointers = _read_pointers(item, source)
        read = library if pointers is None else _follow(pointers, heap)
        sizes = None if pointers is None else _read_sizes(pointers)
        return describe(dtype, read, holds_files=True, read_sizes=sizes)
    if names := h5py.check_enum_dtype(dtype):
        return describe(np.dtype(object), _by_names(library, names))
    if text := h5py.check_string_dtype(dtype):
        pointers = _read_pointers(item, source) if text.length is None else None
        return describe(dtype, library if pointers is None else _follow(pointers, heap, True))
    is_as_stored = item.id.get_type() == h5py.h5t.py_create(dtype)
    direct = _read_directly(item, dtype, source) if is_as_stored else None
    return describe(dtype, direct or library, _count_together(item, is_direct=direct is not None))


def _describe_link(path: str, name: str, link: h5py.ExternalLink) -> StoredArray:
    problem = _say_elsewhere([os.fsdecode(link.filename)])
    return StoredArray(path, name, (), np.dtype("u1"), read_nothing, problem=problem)


def _find_problem(item: h5py.Dataset) -> str:
    """Why a data set cannot be read: its values are elsewhere, or nothing here can unpack them."""
    # HDF5 itself would look for the other files, and crash, since this one is open as an object.
    if item.is_virtual:
        return _say_elsewhere(source.file_name for source in item.virtual_sources())
    if item.external:
        return _say_elsewhere(os.fsdecode(name) for name, _, _ in item.external)
    properties = item.id.get_create_plist()
    for number in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            named = name.decode(errors="replace") or f"the filter {code}"
            return f"packed by {named!r}, which is not installed; repack it: h5repack -f GZIP=4"
    vlen = h5py.check_vlen_dtype(item.dtype)
    is_bytes = vlen in (None, np.uint8) or h5py.check_string_dtype(item.dtype)
    return "" if is_bytes else f"of lists of {vlen}; images of various sizes are stored as files"


def _say_elsewhere(paths: Iterable[str]) -> str:
    """Why an array is not read whose values lie in other files, of which a few are named."""
    named = sorted(set(paths))
    shown = ", ".join(map(repr, named[:3])) + (" …" if len(named) > 3 else "")
    return (
        f"elsewhere: its values lie in another file, {shown}; give that, or copy them into this one"
    )


def _read_directly(item: h5py.Dataset, dtype: np.dtype, source: FileBytes) -> _Read | None:
    """Reads rows of values of fixed size without HDF5's lock; None if only HDF5 can read them."""
    offset = item.id.get_offset()
    if offset is not None:
        return read_range(source, offset, item.shape, dtype)
    is_known = item.chunks and {*_filters_of(item)} <= {_DEFLATE, _SHUFFLE}
    return _ChunkReader(item, dtype, source).read if is_known else None


def _count_together(item: h5py.Dataset, is_direct: bool) -> int:
    """How many rows are unpacked together."""
    if item.chunks:
        return item.chunks[0]
    row_bytes = max(1, item.dtype.itemsize * int(np.prod(item.shape[1:], dtype=np.int64)))
    return 1 if is_direct else max(1, _BLOCK_BYTES // row_bytes)


def _filters_of(item: h5py.Dataset) -> list[int]:
    properties = item.id.get_create_plist()
    return [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]


def _by_library(item: h5py.Dataset) -> _Read:
    def read(start: int, stop: int) -> np.ndarray:
        try:
            with HDF5_LOCK:
                return item[start:stop]
        except (OSError, RuntimeError, ValueError) as error:
            raise BadImage(CORRUPT, f"{item.name!r} cannot be read ({error})") from error

    return read


def _by_names(read_values: _Read, values: dict[str, int]) -> _Read:
    """Reads an enumeration as its names; of a value that has none, its digits."""
    names = {value: name for name, value in values.items()}

    def read(start: int, stop: int) -> np.ndarray:
        found = read_values(start, stop)
        flat = [names.get(value, str(value)) for value in found.reshape(-1).tolist()]
        return np.array(flat, object).reshape(found.shape)

    return read


def _read_pointers(item: h5py.Dataset, source: FileBytes) -> _Read | None:
    """Reads the pointers to rows of varying length; None if only HDF5 can read these."""
    properties = item.id.get_create_plist()
    has_own_fill = properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
    is_usual = item.file.id.get_create_plist().get_sizes() == _USUAL_SIZES
    return _read_directly(item, POINTER, source) if is_usual and not has_own_fill else None


def _follow(pointers: _Read, heap: Heap, are_texts: bool = False) -> _Read:
    """Reads what pointers point to; texts end at their first zero, as HDF5 reads them."""

    def read(start: int, stop: int) -> np.ndarray:
        values = heap.read(pointers(start, stop))
        flat = values.reshape(-1)
        for row, value in enumerate(flat) if are_texts else ():
            flat[row] = value.partition(b"\0")[0]
        return values

    return read


def _read_sizes(pointers: _Read) -> Callable[[int, int], Sequence[int]]:
    """The lengths of rows of varying length, of which the rows themselves are not read."""
    return lambda start, stop: pointers(start, stop)["length"].tolist()


class _ChunkReader:
    """Rows of a data set in chunks, which may be packed by deflate and shuffled."""

    def __init__(self, item: h5py.Dataset, dtype: np.dtype, source: FileBytes):
        """Holds nothing of the data."""
        self._item, self._dtype, self._source = item, dtype, source
        self._shape, self._chunk = item.shape, item.chunks
        self._chunks = ChunkList(item)
        self._filters = _filters_of(item)
        self._has_pointers = dtype == POINTER
        self._fill = np.zeros((), dtype) if self._has_pointers else item.fillvalue

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows from one number up to another; see `StoredArray.read`."""
        rows = np.empty((stop - start, *self._shape[1:]), self._dtype)
        starts = [range(start - start % self._chunk[0], stop, self._chunk[0])]
        starts += [range(0, n, c) for n, c in zip(self._shape[1:], self._chunk[1:], strict=True)]
        for corner in itertools.product(*starts):
            skipped = max(0, start - corner[0])
            at = max(corner[0], start) - start
            ends = [min(c, n - a) for c, n, a in zip(self._chunk, self._shape, corner, strict=True)]
            last = min(corner[0] + ends[0], stop) - corner[0]
            part = tuple(slice(a, a + n) for a, n in zip(corner[1:], ends[1:], strict=True))
            window = (slice(skipped, last), *(slice(0, n) for n in ends[1:]))
            rows[(slice(at, at + last - skipped), *part)] = self._take_chunk(corner)[window]
        return rows

    def _take_chunk(self, corner: tuple[int, ...]) -> np.ndarray:
        """A whole chunk; pointers are kept, since files are mostly read one by one."""
        if self._has_pointers:
            return BLOCKS.get((self, corner), lambda: self._read_chunk(corner))
        return self._read_chunk(corner)

    def _read_chunk(self, corner: tuple[int, ...]) -> np.ndarray:
        """A whole chunk; those that were never written have the value that stands for that."""
        found = self._chunks.find(corner)
        if found is None:
            return np.full(self._chunk, self._fill, self._dtype)
        offset, size, skipped_filters = found
        data = self._source.read(offset, size)
        for place, code in reversed(list(enumerate(self._filters))):
            if not skipped_filters & 1 << place:
                data = self._inflate(data) if code == _DEFLATE else self._unshuffle(data)
        if len(data) != self._chunk_bytes:
            raise BadImage(CORRUPT, f"a chunk of {self._item.name!r} has {len(data)} bytes")
        return np.frombuffer(data, self._dtype).reshape(self._chunk)

    @property
    def _chunk_bytes(self) -> int:
        return self._dtype.itemsize * int(np.prod(self._chunk, dtype=np.int64))

    def _inflate(self, data: bytes) -> bytes:
        unpacking = zlib.decompressobj()
        try:
            # One byte more than there is: at the last one it would stop, before the checksum.
            unpacked = unpacking.decompress(data, self._chunk_bytes + 1)
        except zlib.error as error:
            message = f"a chunk of {self._item.name!r} cannot be unpacked ({error})"
            raise BadImage(CORRUPT, message) from error
        if not unpacking.eof:
            raise BadImage(CORRUPT, f"a chunk of {self._item.name!r} has no end")
        return unpacked

    def _unshuffle(self, data: bytes) -> bytes:
        """The first byte of every value, then the second …: back into their order."""
        size = self._dtype.itemsize
        if size == 1 or len(data) % size:
            return data
        return np.frombuffer(data, np.uint8).reshape(size, -1).T.tobytes()
