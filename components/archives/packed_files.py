"""Files that are packed as a whole, by gzip or as one zlib stream (RFC 1950), read from anywhere.

Where unpacking can begin is found as a file is unpacked, and kept with the file: a file that was
closed is unpacked from its first byte again.
"""

import collections
import os
import threading
from typing import BinaryIO

import indexed_gzip

from image_pipeline.components import files
from image_pipeline.components.archives.as_gzip import AsGzip

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
        """Has none yet."""
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
                self._make_room()
            self._files.move_to_end(key)
            return self._files[key][0]

    def _make_room(self) -> None:
        taken = sum(size_bytes for _, size_bytes in self._files.values())
        while taken > _KEPT_BYTES and len(self._files) > _LEAST_KEPT:
            _, (_, size_bytes) = self._files.popitem(last=False)
            taken -= size_bytes


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
        fileobj=_as_gzip(file, size_bytes) if file and packing == "zlib" else file,
        spacing=_SPACING_BYTES,
        readbuf_size=_PACKED_BYTES,
        buffer_size=_UNPACKED_BYTES,
        skip_crc_check=not is_checked,
    )
    held_bytes = _PACKED_BYTES + _UNPACKED_BYTES
    held_bytes += 0 if files.is_local(path) else min(size_bytes, _REMOTE_BYTES)
    return opened, held_bytes + size_bytes * _WINDOW_BYTES // _SPACING_BYTES


def _as_gzip(file: BinaryIO, size_bytes: int) -> AsGzip:
    """A zlib file's packed bytes, which are what is between its header and its checksum."""
    length = max(0, size_bytes - _ZLIB_HEADER - _ZLIB_END)

    def read_packed(start: int, most_bytes: int) -> bytes:
        file.seek(_ZLIB_HEADER + start)
        return file.read(most_bytes)

    return AsGzip(read_packed, length, _GZIP_END)
