"""HDF5 data sets as arrays of rows.

HDF5 has one lock for all of a process. So only what a data set is and where its chunks lie is asked
of it; bytes are read from the file itself and unpacked here, by as many threads as there are.
"""

import atexit
import contextlib
import dataclasses
import functools
import math
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence

import h5py
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.archives.file_bytes import FileBytes
from image_pipeline.components.arrays.arrays import (
    StoredArray,
    find_misfit,
    read_nothing,
    read_range,
)
from image_pipeline.components.arrays.hdf5_bytes import (
    DEFLATE,
    HDF5_LOCK,
    MOST_TEXT_BYTES,
    POINTER,
    SHUFFLE,
    ChunkReader,
    Heap,
    filters_of,
)
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

# Of data sets that only HDF5 itself can read: rows that are read together.
_BLOCK_BYTES = 4 * 2**20
_MOST_ITEMS, _MOST_DEEP = 100_000, 100
# Bytes of an address, and of a length.
_USUAL_SIZES = (8, 8)

_Read = Callable[[int, int], np.ndarray]


def open_hdf5(path: str) -> list[StoredArray]:
    """The data sets of a file, in the order of their names, such as `train/X`.

    Raises:
      OSError: if it is not an HDF5 file, or is cut.
      ValueError: if what it holds cannot be listed.
    """
    found: list[StoredArray] = []
    with HDF5_LOCK, contextlib.ExitStack() as on_error:
        # By its name, it would be locked against changes for as long as it is kept open.
        file = h5py.File(files.open_input(path), "r")
        on_error.callback(file.close)  # An error would keep it open, see `_close_all`.
        heap = Heap(FileBytes(path), file.userblock_size, file.id.get_filesize())
        try:
            for name, item in _walk(file):
                if isinstance(item, h5py.ExternalLink):
                    problem = _say_elsewhere([os.fsdecode(item.filename)])
                    link = StoredArray(path, name, (), np.dtype("u1"), read_nothing)
                    found.append(dataclasses.replace(link, problem=problem))
                elif isinstance(item, h5py.Dataset):
                    found.append(_describe(path, name, item, heap))
        except (RuntimeError, KeyError, TypeError, SystemError, UnicodeError) as error:
            # HDF5's errors, as h5py names them.
            newest = h5py.version.hdf5_version
            known = f"it is damaged, or of a newer form than HDF5 {newest} reads"
            raise ValueError(f"{known} ({error})") from error
        on_error.pop_all()
    return found


def _walk(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset | h5py.ExternalLink]]:
    """What is in a file, by its name: each once, however many names and loops lead to it.

    From group to group, and not by HDF5's own visit, which looks each up from the root.
    """
    root = file["/"]
    seen, waiting = {h5py.h5o.get_info(root.id).addr}, [("", root, iter(sorted(root)))]
    while waiting:
        folder, group, names = waiting[-1]
        name = next(names, None)
        if name is None:
            waiting.pop()
            continue
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            yield folder + name, link
        if not isinstance(link, h5py.HardLink):
            continue
        item = group[name]
        address = h5py.h5o.get_info(item.id).addr
        if address in seen:
            continue
        seen.add(address)
        if len(seen) > _MOST_ITEMS or len(waiting) > _MOST_DEEP:
            known = f"{_MOST_ITEMS:,} groups and data sets, {_MOST_DEEP} deep"
            raise ValueError(f"it has more than {known}; write the images to a file of their own")
        if isinstance(item, h5py.Group):
            waiting.append((f"{folder}{name}/", item, iter(sorted(item))))
        else:
            yield folder + name, item


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
    dtype, problem, library = item.dtype, _find_problem(item), _by_library(item, source)
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
    if item.chunks and (problem := find_misfit(item.shape, item.chunks, item.dtype.itemsize)):
        return problem
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
    is_known = item.chunks and {*filters_of(item)} <= {DEFLATE, SHUFFLE}
    return ChunkReader(item, dtype, source).read if is_known else None


def _count_together(item: h5py.Dataset, is_direct: bool) -> int:
    """How many rows are unpacked together."""
    if item.chunks:
        return item.chunks[0]
    row_bytes = max(1, item.dtype.itemsize * math.prod(item.shape[1:]))
    return 1 if is_direct else max(1, _BLOCK_BYTES // row_bytes)


def _by_library(item: h5py.Dataset, source: FileBytes) -> _Read:
    """Reads by HDF5, which unpacks a chunk to whatever size it has: so that is looked at before."""
    parts = None
    if item.chunks and filters_of(item):
        parts = ChunkReader(item, np.dtype(("V", item.id.get_type().get_size())), source)

    def read(start: int, stop: int) -> np.ndarray:
        if parts is not None:
            parts.check(start, stop)
        try:
            with HDF5_LOCK:
                return item[start:stop]
        except (OSError, RuntimeError, ValueError) as error:
            raise BadImage(CORRUPT, f"{item.name!r} cannot be read ({error})") from error

    return read


def _by_names(read_values: _Read, values: dict[str, int]) -> _Read:
    """Reads an enumeration as its names; a value without a name as its digits."""
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


def _read_sizes(pointers: _Read) -> Callable[[int, int], Sequence[int]]:
    """The lengths of rows of varying length, of which the rows themselves are not read."""
    return lambda start, stop: pointers(start, stop)["length"].tolist()


def _follow(pointers: _Read, heap: Heap, are_texts: bool = False) -> _Read:
    """Reads what pointers point to; texts end at their first zero, as HDF5 reads them."""

    def read(start: int, stop: int) -> np.ndarray:
        places = pointers(start, stop)
        if are_texts and (places["length"] > MOST_TEXT_BYTES).any():
            raise BadImage(CORRUPT, f"a text has more than {MOST_TEXT_BYTES:,} bytes")
        values = heap.read(places)
        flat = values.reshape(-1)
        for row, value in enumerate(flat) if are_texts else ():
            flat[row] = value.partition(b"\0")[0]
        return values

    return read
