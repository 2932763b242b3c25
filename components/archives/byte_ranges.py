"""Images that are a range of bytes in a file: as they are, or packed as zip and gzip do.

Nothing is ever written to disk, so no name in an archive can do harm.
"""

import functools
import io
import os
import struct
import zlib

import indexed_gzip

from image_pipeline.components import files
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.sources.held import Place
from image_pipeline.components.sources.references import ImageRef

# Of a zip file (PKWARE's APPNOTE, 4.3.7): bytes of a member's own header, before its name and the
# extra field.
_LOCAL_HEADER = 30
_SIGNATURE = b"PK\3\4"  # which it begins with
_DEFLATE_HEAD = 2**16  # more than what deflate has before its first byte
_RAW_DEFLATE = -zlib.MAX_WBITS
# Between two places where unpacking can begin; each costs 32 KiB of memory.
_GZIP_SPACING = 4 * 2**20


def read_plain(ref: ImageRef, wanted: int) -> bytes:
    """Reads an image that is stored as it is; see `places.Reader`."""
    place = _place_of(ref)
    return _check(ref, read_range(ref, place.start, wanted), wanted)


def read_zipped(ref: ImageRef, wanted: int) -> bytes:
    """Reads a member of a zip file; its place starts at the header before it."""
    place = _place_of(ref)
    header = read_range(ref, place.start, _LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or not header.startswith(_SIGNATURE):
        raise BadImage(CORRUPT, f"{place.file!r} has no header where it should begin")
    start = place.start + _LOCAL_HEADER + sum(struct.unpack_from("<HH", header, _LOCAL_HEADER - 4))
    is_packed = place.kind == "zip_deflated"
    # A damaged list may say any length; what unpacks to less than half of itself is damage, too.
    length = min(place.length, 2 * wanted + _DEFLATE_HEAD) if is_packed else wanted
    data = read_range(ref, start, length)
    return _check(ref, _inflate(data, wanted) if is_packed else data, wanted)


def read_gzipped(ref: ImageRef, wanted: int) -> bytes:
    """Reads a range of what a gzip file unpacks to."""
    place = _place_of(ref)
    return _check(ref, open_gzip(place.file).pread(wanted, place.start), wanted)


def open_gzip(path: str) -> indexed_gzip.IndexedGzipFile:
    """A gzip file that can be read from anywhere by `pread`; a process's threads share it.

    Raises:
      OSError: if there is no such file; and when what is read is damaged.
    """
    return _open_gzip(path, os.stat(path).st_mtime_ns if files.is_local(path) else 0)


@functools.lru_cache(maxsize=16)
def _open_gzip(path: str, modified_ns: int) -> indexed_gzip.IndexedGzipFile:
    """`modified_ns` is for the cache only."""
    source = {"filename": path} if files.is_local(path) else {"fileobj": files.open_input(path)}
    return indexed_gzip.IndexedGzipFile(**source, spacing=_GZIP_SPACING)


def read_range(ref: ImageRef, start: int, length: int) -> bytes:
    """Bytes of the file that holds an image; fewer, if it ends."""
    path = _place_of(ref).file
    if not files.is_local(path):
        return files.read_file(path, start, start + length)
    # Named, so that it stays open while it is read: of two threads that open it, one's is kept.
    file = _open(path, ref.modified_ns)
    return os.pread(file.fileno(), length, start)


@functools.lru_cache(maxsize=64)
def _open(path: str, modified_ns: int) -> io.FileIO:
    """A file that stays open: it costs as much to open it as to read a small image.

    It closes with its last user, so that no thread reads another file by its number.
    """
    return open(path, "rb", buffering=0)


def _place_of(ref: ImageRef) -> Place:
    assert ref.place is not None
    return ref.place


def _inflate(data: bytes, wanted: int) -> bytes:
    """At most so many bytes of what was packed: a bomb fills no memory."""
    try:
        return zlib.decompressobj(_RAW_DEFLATE).decompress(data, wanted) if wanted else b""
    except zlib.error as error:
        raise BadImage(CORRUPT, f"it cannot be unpacked ({error})") from error


def _check(ref: ImageRef, data: bytes, wanted: int) -> bytes:
    place = _place_of(ref)
    if len(data) < wanted:
        raise BadImage(CORRUPT, f"{place.file!r} ends within it")
    if place.crc is not None and wanted == ref.size_bytes and zlib.crc32(data) != place.crc:
        raise BadImage(CORRUPT, f"its checksum in {place.file!r} is another")
    return data
