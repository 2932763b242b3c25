"""HDF5 data sets as arrays of rows."""

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import h5py
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.arrays.stored_array import StoredArray, find_misfit, read_nothing

_BLOCK_BYTES = 4 * 2**20  # of a data set without chunks that HDF5 reads: rows of it that are kept
_MOST_ITEMS, _MOST_DEEP = 100_000, 100


def open_hdf5(path: str, file: Any = None) -> list[StoredArray]:
    """The data sets of a file, in the order of their names, such as `train/X`.

    Args:
      path: of the file, or its URI.
      file: its bytes, if it is behind a URI.

    Raises:
      OSError: if it is not an HDF5 file, or is cut.
      ValueError: if what it holds cannot be listed.
    """
    if file is None:
        files.refuse_pipe(path)
    # Without a lock, which would keep it from being changed for as long as it is open.
    opened = h5py.File(path if file is None else file, "r", locking=False if file is None else None)
    found: list[StoredArray] = []
    try:
        for name, item in _walk(opened):
            if isinstance(item, h5py.ExternalLink):
                problem = _say_elsewhere([os.fsdecode(item.filename)])
                link = StoredArray(path, name, (), np.dtype("u1"), read_nothing, problem=problem)
                found.append(link)
            elif isinstance(item, h5py.Dataset):
                found.append(_describe(path, name, item))
    except (RuntimeError, KeyError, TypeError, SystemError, UnicodeError) as error:
        # HDF5's errors, as h5py names them.
        newest = h5py.version.hdf5_version
        known = f"it is damaged, or of a newer form than HDF5 {newest} reads"
        raise ValueError(f"{known} ({error})") from error
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


def _describe(path: str, name: str, item: h5py.Dataset) -> StoredArray:
    shape, dtype, problem = item.shape or (), item.dtype, _find_problem(item)
    describe = functools.partial(StoredArray, path, name, shape)
    if problem or not shape:
        return describe(np.dtype("u1"), read_nothing, problem=problem)
    if h5py.check_vlen_dtype(dtype) == np.uint8:
        holds_files = len(shape) == 1
        return describe(np.dtype(object), _read_files(item), holds_files=holds_files)
    if names := h5py.check_enum_dtype(dtype):
        return describe(np.dtype(object), _read_names(item, names), _count_together(item))
    is_as_stored = item.id.get_type() == h5py.h5t.py_create(dtype)
    offset = item.id.get_offset() if is_as_stored else None  # None of chunks, and of no values
    together = 1 if offset is not None else _count_together(item)
    # What h5py notes in it is not pickled.
    plain = dtype if dtype.kind == "V" else np.dtype(dtype.str)
    return describe(plain, _reader(item), together, offset=offset)


def _find_problem(item: h5py.Dataset) -> str:
    """Why a data set cannot be read: its values are elsewhere, or nothing here can unpack them."""
    # HDF5 itself would look for the other files.
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
    if not item.dtype.hasobject or vlen == np.uint8 or h5py.check_string_dtype(item.dtype):
        return ""
    what = f"lists of {vlen}" if vlen else "references"
    return f"of {what}; images of various sizes are stored as files"


def _say_elsewhere(paths: Iterable[str]) -> str:
    """Why an array is not read whose values lie in other files, of which a few are named."""
    named = sorted(set(paths))
    shown = ", ".join(map(repr, named[:3])) + (" …" if len(named) > 3 else "")
    return (
        f"elsewhere: its values lie in another file, {shown}; give that, or copy them into this one"
    )


def _count_together(item: h5py.Dataset) -> int:
    """How many rows are unpacked together."""
    if item.chunks:
        return item.chunks[0]
    return max(1, _BLOCK_BYTES // max(1, item.dtype.itemsize * math.prod(item.shape[1:])))


def _reader(item: h5py.Dataset) -> Callable[[int, int], np.ndarray]:
    return lambda start, stop: item[start:stop]


def _read_files(item: h5py.Dataset) -> Callable[[int, int], np.ndarray]:
    """Reads rows of bytes as `bytes`."""
    return lambda start, stop: _map_values(np.ndarray.tobytes, item[start:stop])


def _read_names(item: h5py.Dataset, values: dict[str, int]) -> Callable[[int, int], np.ndarray]:
    """Reads an enumeration as its names; a value without a name as its digits."""
    names = {value: name for name, value in values.items()}
    return lambda start, stop: _map_values(lambda v: names.get(v, str(v)), item[start:stop])


def _map_values(function: Callable, rows: np.ndarray) -> np.ndarray:
    found = np.empty(rows.shape, object)
    found.reshape(-1)[:] = list(map(function, rows.reshape(-1).tolist()))
    return found
