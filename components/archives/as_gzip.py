"""Deflated bytes within another file, as a gzip file: indexes of places are known for gzip only."""

import io
import os
from collections.abc import Callable

# RFC 1952: deflate, no flags, no time, no extra flags, unknown system.
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


class AsGzip(io.RawIOBase):
    """A gzip file that is not there: a header, what is packed, and the eight bytes of its end."""

    def __init__(self, read_packed: Callable[[int, int], bytes], length: int, end: bytes):
        """Begins at the first byte.

        Args:
          read_packed: reads at most so many of the deflated bytes, from a place in them on.
          length: how many of them there are.
          end: the checksum and the length of what they unpack to; zeros if nobody looks at them.
        """
        self._read_packed, self._length, self._end, self._at = read_packed, length, end, 0

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
        size = len(_HEADER) + self._length + len(self._end)
        self._at = offset + (0, self._at, size)[whence]
        return self._at

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        """As many bytes as there are before the next of the three parts."""
        data = self._read_part(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _read_part(self, most_bytes: int) -> bytes:
        within = self._at - len(_HEADER)
        if within < 0:
            return _HEADER[self._at :][:most_bytes]
        if within < self._length:
            return self._read_packed(within, min(most_bytes, self._length - within))
        return self._end[within - self._length :][:most_bytes]
