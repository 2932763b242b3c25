"""Files of records that are packed as a whole, by gzip or as one zlib stream (RFC 1950)."""

import functools
import io
import os
from typing import Any

import indexed_gzip

from image_pipeline.components import files

_SPACING = 4 * 2**20  # as of archives, see `byte_ranges`
# A gzip file (RFC 1952) is a header, the same packed bytes, and eight bytes that are not checked.
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_GZIP_END = bytes(8)
_ZLIB_HEADER, _ZLIB_END = 2, 4


def open_packed(path: str, packing: str) -> indexed_gzip.IndexedGzipFile:
    """A file that can be read from anywhere by `pread`; a process's threads share it.

    Its checksum is not looked at, but those of the records in it are: then one that is damaged
    spoils no other.

    Args:
      path: of the file, or its URI.
      packing: "gzip" or "zlib".
    """
    return _open(path, packing, os.stat(path).st_mtime_ns if files.is_local(path) else 0)


@functools.lru_cache(maxsize=16)
def _open(path: str, packing: str, modified_ns: int) -> indexed_gzip.IndexedGzipFile:
    """`modified_ns` is for the cache only."""
    source: dict[str, Any] = {"fileobj": _AsGzip(path)}
    if packing == "gzip":
        is_local = files.is_local(path)
        source = {"filename": path} if is_local else {"fileobj": files.open_input(path)}
    return indexed_gzip.IndexedGzipFile(**source, spacing=_SPACING, skip_crc_check=True)


class _AsGzip(io.RawIOBase):
    """A zlib file as the gzip file of the same bytes: indexes are known for gzip only."""

    def __init__(self, path: str):
        """Begins at the first byte."""
        self._file, self._at = files.open_input(path), 0
        packed = max(0, self._file.seek(0, os.SEEK_END) - _ZLIB_HEADER - _ZLIB_END)
        self._end_of_packed = len(_GZIP_HEADER) + packed
        self._size = self._end_of_packed + len(_GZIP_END)

    def readable(self) -> bool:
        """See `io.RawIOBase`; so do the others."""
        return True

    def seekable(self) -> bool:
        """It can be read from anywhere."""
        return True

    def tell(self) -> int:
        """Where it is read next."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """To a place from the beginning, from here, or from the end."""
        self._at = offset + {os.SEEK_CUR: self._at, os.SEEK_END: self._size}.get(whence, 0)
        return self._at

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        """As many bytes as there are before the next of the three parts."""
        data = self._read_part(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _read_part(self, size: int) -> bytes:
        if self._at < len(_GZIP_HEADER):
            return _GZIP_HEADER[self._at : self._at + size]
        if self._at >= self._end_of_packed:
            return _GZIP_END[self._at - self._end_of_packed :][:size]
        self._file.seek(_ZLIB_HEADER + self._at - len(_GZIP_HEADER))
        return self._file.read(min(size, self._end_of_packed - self._at))
