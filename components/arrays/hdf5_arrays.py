"""HDF5 data sets as arrays of rows."""

import functools
import itertools
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import h5py
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.arrays.stored_array import StoredArray, find_misfit, read_nothing
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

_BLOCK_BYTES = 4 * 2**20  # of a data set without chunks that HDF5 reads: rows of it that are kept
_MOST_ITEMS, _MOST_DEEP = 100_000, 100
_WAY_OUT = "save files as one array [N] of variable-length uint8, and pixels as arrays of numbers"
_FLETCHER32, _FLETCHER32_BYTES = h5py.h5z.FILTER_FLETCHER32, 4


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
            if isinstance(item, h5py.Dataset):
                found.append(_describe(path, name, item))
            elif not isinstance(item, h5py.Datatype):
                problem = _explain_link(item)
                link = StoredArray(path, name, (), np.dtype("u1"), read_nothing, problem=problem)
                found.append(link)
    except (RuntimeError, KeyError, TypeError, SystemError, UnicodeError) as error:
        # HDF5's errors, as h5py names them.
        newest = h5py.version.hdf5_version
        known = f"it is damaged, or of a newer form than HDF5 {newest} reads"
        raise ValueError(f"{known} ({error})") from error
    return found


def _explain_link(link: h5py.SoftLink | h5py.ExternalLink) -> str:
    """Why it is not followed: into another file it never is, and in this one to what is listed."""
    if isinstance(link, h5py.ExternalLink):
        return _say_elsewhere([os.fsdecode(link.filename)])
    return f"a soft link to {link.path!r}, and arrays are read by their own names; name that one"


def _walk(file: h5py.File) -> Iterator[tuple[str, Any]]:
    """What is in a file, by its name: each once, however many names and loops lead to it.

    Links are given as they are: HDF5 would follow them into other files. From group to group, and
    not by HDF5's own visit, which looks each up from the root.
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
        is_here = isinstance(link, h5py.HardLink)
        item = group[name] if is_here else link
        address = h5py.h5o.get_info(item.id).addr if is_here else folder + name
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
    # Elements that are arrays themselves are further sides, as h5py reads them.
    shape, dtype = (item.shape or ()) + item.dtype.shape, item.dtype.base
    problem = _find_problem(item)
    describe = functools.partial(StoredArray, path, name, shape)
    plain = np.dtype(dtype.str)  # What h5py notes in it is not pickled.
    if problem or not item.shape:
        return describe(np.dtype("u1") if problem else plain, read_nothing, problem=problem)
    if h5py.check_vlen_dtype(dtype) == np.uint8:
        return describe(np.dtype(object), _read_files(item), holds_files=True)
    if names := h5py.check_enum_dtype(dtype):
        return describe(np.dtype(object), _read_names(item, names), _count_together(item))
    is_as_stored = item.id.get_type() == h5py.h5t.py_create(item.dtype)
    offset = item.id.get_offset() if is_as_stored else None  # None of chunks, and of no values
    together = 1 if offset is not None else _count_together(item)
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
    dtype = item.dtype.base
    vlen = h5py.check_vlen_dtype(dtype)
    if dtype.names:
        return f"of records of {', '.join(dtype.names)}; save each of these as an array of its own"
    sides = (item.shape or ()) + item.dtype.shape
    if vlen == np.uint8:
        return "" if len(sides) == 1 else f"of files [{', '.join(map(str, sides))}]; {_WAY_OUT}"
    if dtype.kind == "V":
        return f"of opaque bytes; {_WAY_OUT}"
    if not dtype.hasobject or h5py.check_string_dtype(dtype):
        return ""
    return f"of {f'lists of {vlen}' if vlen else 'references'}; {_WAY_OUT}"


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
    def read(start: int, stop: int) -> np.ndarray:
        for corner in _list_corners(item, start, stop) if filters else ():
            _check_chunk(item, filters, chunk_bytes, corner)
        return item[start:stop]

    properties = item.id.get_create_plist()
    filters = [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]
    value_bytes = item.id.get_type().get_size()
    if item.dtype.hasobject:  # In memory it is another size than in the file.
        value_bytes = 8 + item.file.id.get_create_plist().get_sizes()[0]
    chunk_bytes = value_bytes * math.prod(item.chunks or ())
    return read


def _list_corners(item: h5py.Dataset, start: int, stop: int) -> Iterator[tuple[int, ...]]:
    """The first value of each chunk that some rows are in."""
    (rows, *sides), (_, *shape) = item.chunks, item.shape
    firsts = (range(0, n, side) for n, side in zip(shape, sides, strict=True))
    return itertools.product(range(start // rows * rows, stop, rows), *firsts)


def _check_chunk(
    item: h5py.Dataset, filters: Sequence[int], chunk_bytes: int, corner: tuple[int, ...]
) -> None:
    """Refuses a chunk that unpacks to less than its values, or to more.

    HDF5 takes what then lies behind it in memory for values, which are others each time.
    """
    try:
        skipped, data = item.id.read_direct_chunk(corner)
    except (OSError, RuntimeError, ValueError):  # Never written; or reading it will say why not.
        return
    done = [code for number, code in enumerate(filters) if not skipped >> number & 1]
    packed = [code for code in done if code not in (h5py.h5z.FILTER_SHUFFLE, _FLETCHER32)]
    is_at_edge = any(at + c > n for at, c, n in zip(corner, item.chunks, item.shape, strict=True))
    if len(data) == chunk_bytes and is_at_edge:  # An option lets these be stored as they are.
        return
    checksums = _FLETCHER32_BYTES * done.count(_FLETCHER32)
    if not packed:
        size, expected = len(data), chunk_bytes + checksums
    elif len(packed) == 1 and packed[0] in _MEASURES:
        outer = _FLETCHER32_BYTES * done[done.index(packed[0]) :].count(_FLETCHER32)
        expected = chunk_bytes + checksums - outer
        size = _MEASURES[packed[0]](data[: len(data) - outer], expected)
    else:  # Other filters have the size from the data set's own properties.
        return
    if size != expected:
        differs = "more" if size > expected else "fewer"
        raise BadImage(CORRUPT, f"a chunk of {item.name!r} has {differs} than {expected:,} bytes")


def _measure_deflated(data: bytes, most: int) -> int:
    try:
        return len(zlib.decompressobj().decompress(data, most + 1))
    except zlib.error:  # Reading it says what is wrong.
        return most


def _measure_lzf(data: bytes, most: int) -> int:
    """As LibLZF unpacks: runs of up to 32 bytes, and repetitions of up to 264."""
    at, size = 0, 0
    while at < len(data) and size <= most:
        control = data[at]
        if control < 32:
            at, size = at + control + 2, size + control + 1
        else:
            is_long = control >= 7 << 5
            longer = data[at + 1] if is_long and at + 1 < len(data) else 0
            at, size = at + 2 + is_long, size + (control >> 5) + 2 + longer
    return size


def _measure_szip(data: bytes, most: int) -> int:
    """It begins with its size."""
    return int.from_bytes(data[:4], "little")


_MEASURES = {
    h5py.h5z.FILTER_DEFLATE: _measure_deflated,
    h5py.h5z.FILTER_LZF: _measure_lzf,
    h5py.h5z.FILTER_SZIP: _measure_szip,
}


def _read_files(item: h5py.Dataset) -> Callable[[int, int], np.ndarray]:
    """Reads rows of bytes as `bytes`."""
    read = _reader(item)
    return lambda start, stop: _map_values(np.ndarray.tobytes, read(start, stop))


def _read_names(item: h5py.Dataset, values: dict[str, int]) -> Callable[[int, int], np.ndarray]:
    """Reads an enumeration as its names; a value without a name as its digits."""
    read, names = _reader(item), {value: name for name, value in values.items()}
    return lambda start, stop: _map_values(lambda v: names.get(v, str(v)), read(start, stop))


def _map_values(function: Callable, rows: np.ndarray) -> np.ndarray:
    found = np.empty(rows.shape, object)
    found.reshape(-1)[:] = list(map(function, rows.reshape(-1).tolist()))
    return found
