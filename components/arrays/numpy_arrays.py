"""NumPy's `.npy` and `.npz` files as arrays of rows. Nothing is ever unpickled."""

import functools
import math
import struct
import threading
import zipfile
import zlib
from collections.abc import Callable

import indexed_gzip
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.archives.byte_ranges import find_zipped
from image_pipeline.components.archives.file_bytes import FileBytes, as_gzip
from image_pipeline.components.arrays.stored_array import StoredArray, read_nothing, read_range
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.images.npy import NPY_MAGIC, read_array_header

_HEADER_BYTES = 8192  # more than a header that is read has
_ENCRYPTED = 1
# Of what is packed: rows that are unpacked together, and as far apart are places to begin at.
_BLOCK_BYTES = 4 * 2**20

_ReadBytes = Callable[[int, int], bytes]


def open_npy(path: str) -> list[StoredArray]:
    """The one array of an `.npy` file, under the file's name."""
    source = FileBytes(path)
    head = files.read_file(path, 0, _HEADER_BYTES)
    shape, dtype, start, problem = _read_header(head)
    read = read_range(source, start, shape, dtype) if not problem else read_nothing
    return [StoredArray(path, path.rpartition("/")[2], shape, dtype, read, problem=problem)]


def open_npz(path: str) -> list[StoredArray]:
    """The arrays of an `.npz` file, by their names.

    Raises:
      ValueError: if it is not a zip file.
    """
    source = FileBytes(path)
    try:
        with files.open_input(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(str(error)) from error
    return [_open_member(path, source, each) for each in members if not each.is_dir()]


def _open_member(path: str, source: FileBytes, member: zipfile.ZipInfo) -> StoredArray:
    name = member.filename.removesuffix(".npy")
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _PACKINGS:
        problem = "encrypted, or packed by no method of NumPy"
        return StoredArray(path, name, (), np.dtype("u1"), read_nothing, problem=problem)
    try:
        read_bytes, offset = _PACKINGS[member.compress_type](source, member)
        head = read_bytes(0, min(_HEADER_BYTES, member.file_size))
        shape, dtype, start, problem = _read_header(head)
    except BadImage as error:
        return StoredArray(path, name, (), np.dtype("u1"), read_nothing, problem=error.message)
    if problem:
        return StoredArray(path, name, shape, dtype, read_nothing, problem=problem)
    if offset is not None:
        return StoredArray(
            path, name, shape, dtype, read_range(source, offset + start, shape, dtype)
        )
    row_bytes = max(1, dtype.itemsize * math.prod(shape[1:]))

    def read(first: int, stop: int) -> np.ndarray:
        data = read_bytes(start + first * row_bytes, (stop - first) * row_bytes)
        return np.frombuffer(data, dtype).reshape(stop - first, *shape[1:])

    rows_at_once = max(1, _BLOCK_BYTES // row_bytes)
    return StoredArray(path, name, shape, dtype, read, rows_at_once)


def _read_header(head: bytes) -> tuple[tuple[int, ...], np.dtype, int, str]:
    """Shape, type, where the data begins, and why the array cannot be read, if so."""
    unknown = np.dtype("u1")
    try:
        if not head.startswith(NPY_MAGIC):
            return (), unknown, 0, "damaged: it does not begin as an .npy file"
        header = read_array_header(head)
        dtype = np.dtype(("<", ">")[header.is_big_endian] + header.dtype)
    except BadImage as error:
        return (), unknown, 0, f"not to be read: {error.message}"
    except TypeError:
        return (), unknown, 0, f"of an unknown type, {header.dtype!r}"
    problem = ""
    if dtype.hasobject:
        problem = "of Python objects, which are never unpickled; save numbers, or texts"
    elif header.is_fortran and len(header.shape) > 1:
        problem = "in Fortran's order, where a row lies everywhere; save np.ascontiguousarray of it"
    return header.shape, dtype, header.start, problem


def _find_stored(source: FileBytes, member: zipfile.ZipInfo) -> tuple[_ReadBytes, int | None]:
    """Reads bytes of a member that is stored as it is; and where it begins in the file."""
    offset, _ = find_zipped(source.read_some, member.header_offset)
    return lambda start, length: source.read(offset + start, length), offset


def _open_packed(source: FileBytes, member: zipfile.ZipInfo) -> tuple[_ReadBytes, int | None]:
    """Reads bytes of what a member unpacks to, from anywhere.

    Its one checksum is of all of it, so it is unpacked once before any row is given: otherwise
    changed rows would be passed on before the end is seen to be wrong.
    """
    offset, _ = find_zipped(source.read_some, member.header_offset)
    end = struct.pack("<II", member.CRC, member.file_size % 2**32)
    packed = as_gzip(
        lambda start, most: source.read(offset + start, most), member.compress_size, end
    )
    unpacked = indexed_gzip.IndexedGzipFile(fileobj=packed, spacing=_BLOCK_BYTES)
    lock = threading.Lock()

    @functools.cache
    def find_damage() -> str:
        try:
            unpacked.build_full_index()
        except (OSError, ValueError, zlib.error) as error:
            return str(error)
        return ""

    def read(start: int, length: int) -> bytes:
        with lock:
            # The header, at 0, is read of arrays that nobody asks for, too.
            damage = find_damage() if start else ""
            try:
                data = b"" if damage else unpacked.pread(length, start)
            except (OSError, ValueError) as error:  # The library's own are among them.
                damage = str(error)
        if damage:
            raise BadImage(CORRUPT, f"{member.filename!r} cannot be unpacked ({damage})")
        if len(data) < length:
            raise BadImage(CORRUPT, f"{member.filename!r} ends within it")
        return data

    return read, None


_PACKINGS = {zipfile.ZIP_STORED: _find_stored, zipfile.ZIP_DEFLATED: _open_packed}
