"""Zarr's arrays (format 2, in a folder or a zip file) as arrays of rows."""

import functools
import itertools
import math
import os
from collections.abc import Iterator
from typing import Any

import numcodecs
import numpy as np
import zarr
from numcodecs.errors import UnknownCodecError

from image_pipeline.components import files
from image_pipeline.components.arrays.stored_array import StoredArray, find_misfit, read_nothing
from image_pipeline.components.errors import UserError, walk_causes
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

_ARRAY, _GROUP = ".zarray", ".zgroup"
_MOST_DEEP = 100  # groups in each other
_MOST_SIDE = 2**62
_FILES, _TEXTS = "vlen-bytes", "vlen-utf8"
_OBJECTS = (
    "of Python objects, which are never unpickled; write texts with object_codec=VLenUTF8(), and "
    "files with VLenBytes(), both of numcodecs"
)

# A store names its codecs itself, so none may run code: one unpickles, and installed packages may
# bring others. This is for all of the process, which is one that reads a store.
numcodecs.registry.codec_registry.pop("pickle", None)
numcodecs.registry.entries.clear()


def open_zarr(path: str, file: Any = None) -> list[StoredArray]:
    """The arrays of a store, in the order of their names; one by itself is called `array`.

    Args:
      path: of the folder or zip file.
      file: its bytes, if it is behind a URI.

    Raises:
      ValueError: if it is not one that can be read.
      UserError: if it is not on a local disk.
    """
    if file is not None:
        raise UserError(f"Zarr is read from a local disk only, got {path!r}; copy it there.")
    try:
        store = zarr.ZipStore(path, mode="r") if os.path.isfile(path) else _Folder(path)
        return [_describe(path, folder, store) for folder in _list_arrays(store)]
    except (files.OutsideError, UserError):
        raise
    except Exception as error:  # Of what others wrote, the libraries raise anything.
        raise ValueError(f"it is not a Zarr store that can be read ({_tell(error)})") from error


class _Folder(zarr.DirectoryStore):
    """A store in a folder, of whose files only regular ones in it are read."""

    def __contains__(self, key: str) -> bool:
        path = os.path.join(self.path, key)
        return os.path.lexists(path) and not os.path.isdir(path)

    def __getitem__(self, key: str) -> bytes:
        if key not in self:
            raise KeyError(key)
        path = os.path.join(self.path, key)
        try:
            return files.read_regular_file(path, os.stat(path).st_size, within=self.path)
        except files.OutsideError as error:
            raise files.OutsideError(error.errno, error.strerror, key) from error
        except files.NotRegularError as error:
            raise BadImage(CORRUPT, f"{key!r} is not a regular file") from error


def _list_arrays(store: Any) -> Iterator[str]:
    """The folders of arrays in a store; "" if it is an array itself."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        prefix = f"{folder}/" if folder else ""
        if prefix + _ARRAY in store:
            yield folder
        elif prefix + _GROUP in store:
            zarr.Group(store, folder, read_only=True)  # Raises, if it is none.
            if prefix.count("/") > _MOST_DEEP:
                raise ValueError(f"it is more than {_MOST_DEEP} groups deep")
            names = sorted(store.listdir(folder), reverse=True)
            waiting += [prefix + name for name in names if name and name[0] != "."]
        elif not folder:
            if "zarr.json" in store:
                raise ValueError("it has Zarr's format 3; write it as zarr_format=2")
            raise ValueError(
                f"it has neither {_ARRAY} nor {_GROUP}; give the folder that has one, or a zip "
                "file of what is in that folder"
            )


def _describe(path: str, folder: str, store: Any) -> StoredArray:
    name = folder or "array"
    bad = functools.partial(StoredArray, path, name, (), np.dtype("u1"), read_nothing)
    try:
        item = zarr.Array(store, folder, read_only=True)
    except (files.OutsideError, BadImage):
        raise
    except Exception as error:
        for cause in walk_causes(error):
            if isinstance(cause, UnknownCodecError):
                how = "which is not read; write it with another codec"
                return bad(problem=f"packed by {cause.codec_id}, {how}")
        # Zarr tries to find the type's sides in a filter that is not there.
        if (
            isinstance(error, zarr.errors.MetadataError)
            and b'"|O"' in store[f"{folder}/{_ARRAY}".lstrip("/")]
        ):
            return bad(problem=_OBJECTS)
        raise ValueError(f"{name!r}: {_tell(error)}") from error
    _check_sides(name, item.shape, item.chunks)
    codec = item.filters[0].codec_id if item.filters else ""
    if item.dtype.kind not in "biufcSUO" or not item.dtype.itemsize:
        return bad(problem=f"of the type {item.dtype}, which is not read; save numbers, or texts")
    if item.dtype.hasobject and codec not in (_FILES, _TEXTS):
        return bad(problem=_OBJECTS)
    if misfit := find_misfit(item.shape, item.chunks, item.dtype.itemsize) if item.shape else "":
        return bad(problem=misfit)
    # Zarr would unpack a whole chunk into memory that is not cleared, however short it is.
    item._filters = item._filters or [_Same()]
    return StoredArray(
        path,
        name,
        item.shape,
        item.dtype,
        functools.partial(_read, item),
        item.chunks[0] if item.chunks else 1,
        holds_files=codec == _FILES and item.dtype.hasobject,
    )


def _check_sides(name: str, *sides: Any) -> None:
    shape, chunk = sides
    numbers = itertools.chain(shape, chunk)
    if not all(type(n) is int and 0 <= n < _MOST_SIDE for n in numbers) or 0 in chunk:
        raise ValueError(f"{name!r} has the sides {shape} in chunks of {chunk}")
    if len(shape) != len(chunk):
        raise ValueError(f"{name!r} has {len(shape)} sides, in chunks of {len(chunk)}")


class _Same:
    """A filter that changes nothing."""

    def decode(self, data: Any) -> Any:
        return data


def _read(item: zarr.Array, start: int, stop: int) -> np.ndarray:
    is_filled = item.fill_value is not None
    if item.dtype.hasobject:
        is_filled = isinstance(item.fill_value, str)
    if not is_filled:
        _check_there(item, start, stop)
    found = item[start:stop]
    if item.dtype.hasobject and item.filters[0].codec_id == _FILES:
        flat = found.reshape(-1)  # The fill value of files is a text.
        flat[:] = [os.fsencode(each) if isinstance(each, str) else each for each in flat]
    return found


def _check_there(item: zarr.Array, start: int, stop: int) -> None:
    """Raises BadImage if a chunk of these rows was never written, or is gone."""
    first, *others = item.chunks
    rows = range(start // first, -(-stop // first))
    counts = (math.ceil(n / c) for n, c in zip(item.shape[1:], others, strict=True))
    for numbers in itertools.product(rows, *map(range, counts)):
        key = item._chunk_key(numbers)
        if key not in item.store:
            raise BadImage(CORRUPT, f"'/{item.path}' has no chunk {key}, and no fill value")


def _tell(error: Exception) -> str:
    """An error and what caused it: of metadata, Zarr's own says nothing."""
    told: list[str] = []
    for cause in walk_causes(error):
        text = cause.message if isinstance(cause, BadImage) else str(cause)
        told += [text] if text and not any(text in each for each in told) else []
    return ": ".join(told)
