"""Files of records that are packed as a whole, by gzip or as one zlib stream (RFC 1950)."""

import functools
import os
from typing import Any

import indexed_gzip

from image_pipeline.components import files
from image_pipeline.components.archives.as_gzip import AsGzip

_SPACING = 4 * 2**20  # as of archives, see `byte_ranges`
_GZIP_END = bytes(8)  # which is not checked
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
    source: dict[str, Any] = {"fileobj": _as_gzip(path)}
    if packing == "gzip":
        is_local = files.is_local(path)
        source = {"filename": path} if is_local else {"fileobj": files.open_input(path)}
    return indexed_gzip.IndexedGzipFile(**source, spacing=_SPACING, skip_crc_check=True)


def _as_gzip(path: str) -> AsGzip:
    """A zlib file's packed bytes, which are what is between its header and its checksum."""
    file = files.open_input(path)
    length = max(0, file.seek(0, os.SEEK_END) - _ZLIB_HEADER - _ZLIB_END)

    def read_packed(start: int, most_bytes: int) -> bytes:
        file.seek(_ZLIB_HEADER + start)
        return file.read(most_bytes)

    return AsGzip(read_packed, length, _GZIP_END)
