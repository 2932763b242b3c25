"""Zarr's arrays (format 2, in a folder or a zip file) as arrays of rows."""

import itertools
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import zarr
from zarr.errors import MetadataError

from image_pipeline.components import files
from image_pipeline.components.arrays.arrays import StoredArray
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

# What Zarr raises where a store is damaged, or is none.
_UNREADABLE = (
    *(OSError, RuntimeError, ValueError, KeyError, TypeError, zlib.error),
    *(EOFError, SystemError, zipfile.BadZipFile, MetadataError),
)
_TEXTS, _FILES = ("vlen-utf8",), ("vlen-bytes",)


def open_zarr(path: str) -> list[StoredArray]:
    """The arrays of a store, in the order of their names; one by itself is called `array`.

    Raises:
      ValueError: if it is none that can be read.
      UserError: if it is not on a local disk.
    """
    if not files.is_local(path):
        raise UserError(f"Zarr is read from a local disk only, got {path!r}; copy it there.")
    if os.path.isfile(os.path.join(path, "zarr.json")):
        raise ValueError("it has Zarr's format 3; write it as zarr_format=2")
    try:
        is_zip = os.path.isfile(path)
        found = zarr.open(zarr.ZipStore(path, mode="r") if is_zip else path, mode="r")
        listed = list(_list_arrays(found))
    except _UNREADABLE as error:
        raise ValueError(f"it is no Zarr store ({error})") from error
    return [_describe(path, name, array) for name, array in listed]


def _list_arrays(found: zarr.Group | zarr.Array) -> Iterator[tuple[str, zarr.Array]]:
    if isinstance(found, zarr.Array):
        yield "array", found
        return
    listed: list[tuple[str, zarr.Array]] = []
    found.visititems(lambda name, item: listed.append((name, item)))
    yield from ((name, item) for name, item in listed if isinstance(item, zarr.Array))


def _describe(path: str, name: str, array: zarr.Array) -> StoredArray:
    codecs = [each.codec_id for each in array.filters or ()]
    is_unsafe = array.dtype.hasobject and not (codecs and codecs[-1] in (*_TEXTS, *_FILES))
    problem = "of Python objects, which are never unpickled" if is_unsafe else ""
    rows_at_once = array.chunks[0] if array.chunks else 1
    holds_files = array.dtype.hasobject and not is_unsafe and codecs[-1] in _FILES
    return StoredArray(
        path,
        name,
        array.shape,
        array.dtype,
        _reader(array),
        rows_at_once,
        holds_files,
        None,
        problem,
    )


def _reader(array: zarr.Array) -> Callable[[int, int], np.ndarray]:
    def read(start: int, stop: int) -> np.ndarray:
        try:
            if (missing := _find_missing(array, start, stop)) is not None:
                raise BadImage(CORRUPT, f"{array.name!r} has no chunk {missing}, and no fill value")
            return array[start:stop]
        except _UNREADABLE as error:
            raise BadImage(CORRUPT, f"{array.name!r} cannot be read ({error})") from error

    return read


def _find_missing(array: zarr.Array, start: int, stop: int) -> str | None:
    """The first chunk of some rows that is not there, if nothing says what its values are.

    Zarr gives memory as it happens to be for it, or the number 0 among texts and files.
    """
    fill = array.fill_value
    if isinstance(fill, str | bytes) if array.dtype.hasobject else fill is not None:
        return None
    counts = [-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]
    first = range(start // array.chunks[0], -(-stop // array.chunks[0]))
    folder = f"{array.path}/" if array.path else ""
    for place in itertools.product(first, *map(range, counts[1:])):
        numbers = list(map(str, place))
        keys = [f"{folder}{separator.join(numbers)}" for separator in "./"]  # as it was written
        if not any(key in array.chunk_store for key in keys):
            return keys[0]
    return None
