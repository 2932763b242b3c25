"""Zarr's arrays (format 2, in a folder or a zip file) as arrays of rows.

Read here and not by the package `zarr`: that unpickles what a store's metadata asks for, follows
links to anywhere, and unpacks chunks to whatever size they have.
Source: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html.
"""

import base64
import functools
import json
import os
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.arrays.arrays import (
    StoredArray,
    find_misfit,
    read_chunks,
    read_nothing,
)
from image_pipeline.components.arrays.zarr_codecs import FILES, Unpacker
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.sources.folder import OUTSIDE, leads_out

_ARRAY, _GROUP = ".zarray", ".zgroup"
_MOST_METADATA_BYTES = 2**20  # of a store's JSON
_MOST_DIMENSIONS, _MOST_SIDE = 32, 2**62
_MOST_DEEP = 100  # folders of a zip file
_DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def open_zarr(path: str) -> list[StoredArray]:
    """The arrays of a store, in the order of their names; one by itself is called `array`.

    Raises:
      ValueError: if it is not one that can be read.
      UserError: if it is not on a local disk.
    """
    if not files.is_local(path):
        raise UserError(f"Zarr is read from a local disk only, got {path!r}; copy it there.")
    if os.path.isfile(os.path.join(path, "zarr.json")):
        raise ValueError("it has Zarr's format 3; write it as zarr_format=2")
    try:
        store: _Store = _Zip(path) if os.path.isfile(path) else _Folder(path)
        return [_describe(path, name, store) for name in _list_arrays(store, "")]
    except (BadImage, *_DAMAGED_ZIP) as error:
        message = error.message if isinstance(error, BadImage) else error
        raise ValueError(f"it is not a Zarr store ({message})") from error


class _Store(Protocol):
    """Files by their keys, such as `x/.zarray`, whose parts are separated by slashes."""

    def read(self, key: str, most_bytes: int) -> bytes | None:
        """A file's bytes; None if there is none. Raises BadImage if it is not to be read."""

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""


class _Folder:
    """A store in a folder, whose links lead nowhere else."""

    def __init__(self, root: str):
        """Reads nothing yet."""
        self._root = root

    def read(self, key: str, most_bytes: int) -> bytes | None:
        path = os.path.join(self._root, key)
        if not os.path.lexists(path):
            return None
        if leads_out(self._root, key):
            raise BadImage(OUTSIDE, f"{key!r} is a link that leads out of the store; copy the file")
        try:
            return _check_size(files.read_regular_file(path, most_bytes + 1), key, most_bytes)
        except files.NotRegularError as error:
            raise BadImage(CORRUPT, f"{key!r} is not a regular file") from error

    def list(self, folder: str) -> list[str]:
        path = os.path.join(self._root, folder)
        return sorted(os.listdir(path)) if os.path.isdir(path) else []


class _Zip:
    """A store in a zip file."""

    def __init__(self, path: str):
        """Reads the list of its members."""
        self._file, self._lock = zipfile.ZipFile(path), threading.Lock()
        self._members = {member.filename: member for member in self._file.infolist()}
        self._names: dict[str, set[str]] = {}  # in each folder
        for key in self._members:
            parts = key.split("/")
            if len(parts) > _MOST_DEEP:
                raise BadImage(CORRUPT, f"it is more than {_MOST_DEEP} folders deep")
            for depth, name in enumerate(parts):
                self._names.setdefault("/".join(parts[:depth]), set()).add(name)

    def read(self, key: str, most_bytes: int) -> bytes | None:
        if key not in self._members:
            return None
        with self._lock, self._file.open(self._members[key]) as file:
            return _check_size(file.read(most_bytes + 1), key, most_bytes)

    def list(self, folder: str) -> list[str]:
        return sorted(self._names.get(folder, set()) - {""})  # The folder itself, were it one.


def _check_size(data: bytes, key: str, most_bytes: int) -> bytes:
    if len(data) > most_bytes:
        raise BadImage(CORRUPT, f"{key!r} has more than {most_bytes:,} bytes")
    return data


def _list_arrays(store: _Store, folder: str) -> Iterator[str]:
    """The folders of arrays in a group and those below it; "" if the store is an array itself.

    A list of folders, not calls of calls: groups may be nested deeper than Python's calls.
    """
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        prefix = f"{folder}/" if folder else ""
        if store.read(prefix + _ARRAY, _MOST_METADATA_BYTES) is not None:
            yield folder
        elif store.read(prefix + _GROUP, _MOST_METADATA_BYTES) is not None:
            _read_json(store, prefix + _GROUP)
            waiting += [prefix + name for name in reversed(store.list(folder)) if name[:1] != "."]
        elif not folder:
            raise BadImage(CORRUPT, f"it has neither {_ARRAY} nor {_GROUP}")


def _read_json(store: _Store, key: str) -> dict[str, Any]:
    try:
        found = json.loads(store.read(key, _MOST_METADATA_BYTES) or b"")
    except (ValueError, RecursionError) as error:
        raise BadImage(CORRUPT, f"{key!r} is not valid JSON: {error}") from error
    if not isinstance(found, dict) or found.get("zarr_format") != 2:
        version = found.get("zarr_format") if isinstance(found, dict) else found
        raise BadImage(CORRUPT, f"unsupported zarr format in {key!r}: {version!r}")
    return found


def _describe(path: str, folder: str, store: _Store) -> StoredArray:
    name = folder or "array"
    stated = _read_json(store, f"{folder}/{_ARRAY}" if folder else _ARRAY)
    shape, chunk = (_read_sides(stated.get(key), name) for key in ("shape", "chunks"))
    dtype = _read_dtype(stated.get("dtype"))
    if len(shape) != len(chunk) or 0 in chunk:
        raise BadImage(CORRUPT, f"{name!r} has a shape of {shape} and chunks of {chunk}")
    bad = functools.partial(StoredArray, path, name, shape, np.dtype("u1"), read_nothing)
    if dtype is None:
        return bad(problem=f"of the type {stated.get('dtype')!r}, which is not read")
    if misfit := find_misfit(shape, chunk, dtype.itemsize) if shape else "":
        return bad(problem=misfit)
    try:
        unpacker = Unpacker(stated.get("compressor"), stated.get("filters"), dtype, chunk)
    except ValueError as error:
        return bad(problem=str(error))
    try:
        fill = _read_fill(stated.get("fill_value"), dtype, unpacker.objects == FILES)
    except (ValueError, TypeError, OverflowError) as error:
        return bad(problem=f"filled with a value that is not of type {dtype} ({error})")
    is_fortran = stated.get("order") == "F"
    separator = "/" if stated.get("dimension_separator") == "/" else "."

    def take(corner: tuple[int, ...]) -> np.ndarray:
        numbers = (str(at // side) for at, side in zip(corner, chunk, strict=True))
        key = f"{folder}/{separator.join(numbers)}".lstrip("/")
        data = store.read(key, unpacker.most_packed_bytes)
        if data is None and fill is None:
            raise BadImage(CORRUPT, f"'/{folder}' has no chunk {key}, and no fill value")
        if data is None:
            return np.full(chunk, fill, dtype)
        return unpacker.unpack(data).reshape(chunk, order="F" if is_fortran else "C")

    return StoredArray(
        path,
        name,
        shape,
        dtype,
        _reader(folder, lambda start, stop: read_chunks(shape, chunk, dtype, (start, stop), take)),
        chunk[0] if chunk else 1,
        unpacker.objects == FILES,
    )


def _read_sides(stated: Any, name: str) -> tuple[int, ...]:
    is_list = isinstance(stated, list) and len(stated) <= _MOST_DIMENSIONS
    if not is_list or not all(type(n) is int and 0 <= n < _MOST_SIDE for n in stated):
        raise BadImage(CORRUPT, f"{name!r} has the sides {str(stated)[:100]}")
    return tuple(stated)


def _read_dtype(stated: Any) -> np.dtype | None:
    """The type of values; None if they are structures, times, or have no type."""
    try:
        dtype = np.dtype(stated) if isinstance(stated, str) else None
    except (TypeError, ValueError):
        return None
    return dtype if dtype is not None and dtype.kind in "biufcSUO" and dtype.itemsize else None


def _read_fill(stated: Any, dtype: np.dtype, are_files: bool) -> Any:
    """What chunks have that were never written; None if no usable value is given."""
    if stated is None:
        return None
    if dtype.hasobject:
        text = stated if isinstance(stated, str) else None
        return os.fsencode(text) if are_files and text is not None else text
    if dtype.kind == "S":
        return np.array(base64.standard_b64decode(stated), dtype)[()]
    if dtype.kind == "c":
        return np.array(complex(*map(float, stated)), dtype)[()]
    return np.array(float(stated) if dtype.kind == "f" else stated, dtype)[()]


def _reader(
    folder: str, read_rows: Callable[[int, int], np.ndarray]
) -> Callable[[int, int], np.ndarray]:
    """Reads rows; errors of a chunk name the array."""

    def read(start: int, stop: int) -> np.ndarray:
        try:
            return read_rows(start, stop)
        except (OSError, ValueError, *_DAMAGED_ZIP) as error:
            raise BadImage(CORRUPT, f"'/{folder}' cannot be read ({error})") from error

    return read
