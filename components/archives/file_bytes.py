"""Bytes of files that stay open, read from anywhere: plain ones, and those packed by gzip or zlib.

It costs as much to open a file as to read a small image. Where unpacking can begin is found as a
file is unpacked, and kept with it: a file that was closed is unpacked from its first byte again.
"""

import collections
import os
import threading
from collections.abc import Callable
from typing import BinaryIO

import indexed_gzip

from image_pipeline.components import files
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.stores.remote import ReadAt

_MOST_BYTES = 2**63 - 1  # of a file
# Between two places where unpacking can begin, and what each of them takes.
_SPACING_BYTES = 4 * 2**20
_WINDOW_BYTES = 32 * 2**10
# What is read at once of a file, and what is held of what it unpacks to: each time that is read
# on, unpacking begins at one of these places. The library's own 16 MiB would save a fifth.
_PACKED_BYTES = 256 * 2**10
_UNPACKED_BYTES = 2**20
_REMOTE_BYTES = 8 * 2**20  # What is held of a file behind a URI.
# Of all files that are kept, by their packed sizes: 200 small files, or 32 GB of large ones.
_KEPT_BYTES = 256 * 2**20
_LEAST_KEPT = 16  # whatever they take
_GZIP_END = bytes(8)  # which is not checked
_ZLIB_HEADER, _ZLIB_END = 2, 4
# RFC 1952: deflate, no flags, no time, no extra flags, unknown system.
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


class FileBytes:
    """A file's bytes, read by any thread; it closes with its last user.

    So no thread reads another file by its number.
    """

    def __init__(self, path: str):
        """Opens it, unless it is behind a URI."""
        self._path = path
        is_local = files.is_local(path)
        self._file = open(path, "rb", buffering=0) if is_local else None  # noqa: SIM115

    def read(self, start: int, length: int) -> bytes:
        """Reads so many bytes; raises BadImage if there are fewer."""
        data = self.read_some(start, length)
        if len(data) < length:
            raise BadImage(CORRUPT, f"{self._path!r} ends within it")
        return data

    def read_some(self, start: int, length: int) -> bytes:
        """Reads so many bytes, or fewer if the file ends; a damaged list may ask for any."""
        if not 0 <= start <= _MOST_BYTES - length:
            return b""
        if self._file is None:
            return files.read_file(self._path, start, start + length)
        return os.pread(self._file.fileno(), length, start)


def as_gzip(read_packed: Callable[[int, int], bytes], length: int, end: bytes) -> ReadAt:
    """Deflated bytes as a gzip file: indexes of where unpacking can begin are known for those only.

    Args:
      read_packed: reads at most so many of them, from a place in them on.
      length: how many of them there are.
      end: the checksum and the length of what they unpack to; zeros if nobody looks at them.
    """

    def read(start: int, most_bytes: int) -> bytes:
        within = start - len(_GZIP_HEADER)
        if within < 0:
            return _GZIP_HEADER[start:][:most_bytes]
        if within < length:
            return read_packed(within, min(most_bytes, length - within))
        return end[within - length :][:most_bytes]

    return ReadAt(read, len(_GZIP_HEADER) + length + len(end))


def open_packed(
    path: str, packing: str, modified_ns: int, is_checked: bool = False
) -> indexed_gzip.IndexedGzipFile:
    """A file that can be read from anywhere by `pread`; a process's threads share it.

    Args:
      path: of the file, or its URI.
      packing: "gzip" or "zlib".
      modified_ns: when it was changed, so that an older state of it is not used.
      is_checked: whether the checksum at its end is looked at. Where what is in it has checksums of
        its own, it is not: then what is damaged spoils nothing else.

    Raises:
      OSError: if there is no such file; and when what is read is damaged.
    """
    return _KEPT.get(path, packing, modified_ns, is_checked)


class _Kept:
    """The files that were read last, as many as take a bounded memory."""

    def __init__(self) -> None:
        self._files: collections.OrderedDict[tuple, tuple[indexed_gzip.IndexedGzipFile, int]]
        self._files, self._lock = collections.OrderedDict(), threading.Lock()

    def get(
        self, path: str, packing: str, modified_ns: int, is_checked: bool
    ) -> indexed_gzip.IndexedGzipFile:
        """Opens a file unless it is open; see `open_packed`."""
        key = (path, packing, modified_ns, is_checked)
        with self._lock:
            if key not in self._files:
                self._files[key] = _open(path, packing, is_checked)
                taken = sum(size_bytes for _, size_bytes in self._files.values())
                while taken > _KEPT_BYTES and len(self._files) > _LEAST_KEPT:
                    _, (_, size_bytes) = self._files.popitem(last=False)
                    taken -= size_bytes
            self._files.move_to_end(key)
            return self._files[key][0]


_KEPT = _Kept()


def _open(path: str, packing: str, is_checked: bool) -> tuple[indexed_gzip.IndexedGzipFile, int]:
    """The file, and about what memory it takes when all of it was read."""
    is_plain = files.is_local(path) and packing == "gzip"  # It closes while it is not read.
    file = None if is_plain else files.open_input(path)
    size_bytes = os.stat(path).st_size if file is None else file.seek(0, os.SEEK_END)
    if file is not None:
        file.seek(0)
    opened = indexed_gzip.IndexedGzipFile(
        filename=path if file is None else None,
        fileobj=_zlib_as_gzip(file, size_bytes) if file and packing == "zlib" else file,
        spacing=_SPACING_BYTES,
        readbuf_size=_PACKED_BYTES,
        buffer_size=_UNPACKED_BYTES,
        skip_crc_check=not is_checked,
    )
    held_bytes = _PACKED_BYTES + _UNPACKED_BYTES
    held_bytes += 0 if files.is_local(path) else min(size_bytes, _REMOTE_BYTES)
    return opened, held_bytes + size_bytes * _WINDOW_BYTES // _SPACING_BYTES


def _zlib_as_gzip(file: BinaryIO, size_bytes: int) -> ReadAt:
    """A zlib file's packed bytes, which are what is between its header and its checksum."""

    def read_packed(start: int, most_bytes: int) -> bytes:
        file.seek(_ZLIB_HEADER + start)
        return file.read(most_bytes)

    return as_gzip(read_packed, max(0, size_bytes - _ZLIB_HEADER - _ZLIB_END), _GZIP_END)
