"""Unpacks chunks of Zarr's arrays to no more than they can have, by a few known codecs only.

A store names its codecs itself: one of them runs code (`pickle`), and others come with whatever
packages are installed. And most unpack to whatever size the bytes say.
"""

import bz2
import lzma
import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numcodecs
import numpy as np

FILES, TEXTS = "vlen-bytes", "vlen-utf8"
_MOST_OBJECT_BYTES = 256 * 2**20  # of a chunk of files or texts
_MOST_FILTERS = 8
# Checksums, which are 4 bytes more; the others change the size by the types that they name.
_FILTERS = (
    *("shuffle", "delta", "fixedscaleoffset", "quantize", "bitround", "packbits", "astype"),
    *("crc32", "crc32c", "adler32", "fletcher32"),
)
# The types that a filter may name: of what is stored, and of what it makes of that.
_STORED_TYPES, _MADE_TYPES = ("astype", "encode_dtype"), ("dtype", "decode_dtype")
_CHECKSUM_BYTES = 8
_MOST_ADDED_BYTES = 2**16
_MOST_TEXT_BYTES = 2**20
_ZSTD_MARK = b"\x28\xb5\x2f\xfd"
_MOST_LZMA_BYTES = 256 * 2**20  # of memory


class Unpacker:
    """What a chunk goes through."""

    def __init__(
        self, compressor: Any, filters: Any, dtype: np.dtype, chunk: Sequence[int]
    ) -> None:
        """Takes what an array's metadata says.

        Raises:
          ValueError: if it names what is not used here; it says what the array is then.
        """
        named = list(filters or ()) if isinstance(filters, list | None) else [filters]
        if len(named) > _MOST_FILTERS:
            raise ValueError(f"packed by {len(named)} filters, more than {_MOST_FILTERS}")
        self.objects = ""
        if dtype.hasobject:
            self.objects = _id_of(named.pop(0)) if named else ""
            if self.objects not in (FILES, TEXTS):
                raise ValueError("of Python objects, which are never unpickled")
        self._filters = [_make(each, _FILTERS) for each in named]
        self._compressor = None if compressor is None else _make(compressor, tuple(_COMPRESSORS))
        self._dtype, self._count = dtype, math.prod(chunk)
        self._most_bytes = _MOST_OBJECT_BYTES  # at each step
        if not self.objects:
            stored = (np.dtype(getattr(f, t, "u1")) for f in self._filters for t in _STORED_TYPES)
            width = max((each.itemsize for each in stored), default=1)
            widest = min(width * self._count, _MOST_OBJECT_BYTES)
            usual = 2 * dtype.itemsize * self._count
            self._most_bytes = max(usual, widest) + _CHECKSUM_BYTES * _MOST_FILTERS

    @property
    def most_packed_bytes(self) -> int:
        """How many bytes a chunk may have as it is stored: codecs make few larger."""
        return self._most_bytes + _MOST_ADDED_BYTES

    def unpack(self, data: bytes) -> np.ndarray:
        """The values of a chunk, in one dimension.

        Raises:
          ValueError: if they are damaged, or more than the chunk has.
        """
        found: Any = data
        if self._compressor is not None:
            found = _COMPRESSORS[self._compressor.codec_id](
                self._compressor, data, self._most_bytes
            )
        for each in reversed(self._filters):
            self._check_growth(each, found)
            found = _call(each.decode, found)
        if self.objects:
            return self._read_objects(np.ascontiguousarray(found).reshape(-1).view(np.uint8))
        found = np.frombuffer(found, np.uint8) if isinstance(found, bytes) else np.asarray(found)
        values = np.ascontiguousarray(found).reshape(-1).view(self._dtype)
        if len(values) != self._count:
            raise ValueError(f"a chunk has {len(values):,} values, where it should {self._count:,}")
        return values

    def _check_growth(self, codec: Any, data: Any) -> None:
        """Looks at what a filter would make of this before it does."""
        before, after = 1, 8 if codec.codec_id == "packbits" else 1
        for small, large in zip(_STORED_TYPES, _MADE_TYPES, strict=True):
            if hasattr(codec, small) and hasattr(codec, large):
                before, after = (np.dtype(getattr(codec, n)).itemsize for n in (small, large))
        if memoryview(data).nbytes * after > self._most_bytes * max(1, before):
            raise ValueError(
                f"the filter {codec.codec_id!r} would make more of it than a chunk has"
            )

    def _read_objects(self, data: np.ndarray) -> np.ndarray:
        """Texts, or files: how many, and then the length and the bytes of each."""
        packed, at = data.tobytes(), 4
        if int.from_bytes(packed[:4], "little") != self._count:
            raise ValueError(
                f"a chunk does not have the {self._count:,} texts or files that it should"
            )
        values = np.empty(self._count, object)
        for row in range(self._count):
            end = at + 4 + int.from_bytes(packed[at : at + 4], "little")
            if end > len(packed) or at + 4 > len(packed):
                raise ValueError("a chunk ends within a text or file")
            if self.objects == TEXTS and end - at > _MOST_TEXT_BYTES:
                raise ValueError(f"a text has more than {_MOST_TEXT_BYTES:,} bytes")
            value = packed[at + 4 : end]
            values[row] = value if self.objects == FILES else value.decode()
            at = end
        return values


def _id_of(config: Any) -> str:
    return str(config.get("id")) if isinstance(config, Mapping) else str(config)


def _make(config: Any, known: Sequence[str]) -> Any:
    """A codec of those that are known."""
    name = _id_of(config)
    if name not in known or not isinstance(config, Mapping):
        raise ValueError(f"packed by {name!r}, which is not one of {', '.join(known)}")
    try:
        codec = numcodecs.get_codec(dict(config))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"packed by {name!r} with settings that it does not have ({error})"
        ) from error
    for key in _STORED_TYPES + _MADE_TYPES:
        if np.dtype(getattr(codec, key, "u1")).kind not in "biufc":
            raise ValueError(f"packed by {name!r}, but not of numbers")
    return codec


def _call(decode: Callable[..., Any], data: Any) -> Any:
    try:
        return decode(data)
    except (RuntimeError, TypeError, MemoryError, SystemError, AssertionError) as error:
        raise ValueError(str(error)) from error


def _by_size(read_size: Callable[[bytes], int]) -> Callable[[Any, bytes, int], Any]:
    """Unpacks what begins with its unpacked size."""

    def unpack(codec: Any, data: bytes, most_bytes: int) -> Any:
        try:
            size = read_size(data)
        except (IndexError, struct.error) as error:
            raise ValueError("a chunk ends within its header") from error
        _check(size, most_bytes)
        return _call(codec.decode, data)

    return unpack


def _check(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise ValueError(f"a chunk unpacks to more than the {most_bytes:,} bytes that it may have")


def _blosc_size(data: bytes) -> int:
    """Its header has the unpacked and the packed size, which Blosc trusts."""
    size, _, packed = struct.unpack_from("<III", data, 4)
    if packed > len(data):
        raise ValueError(f"a chunk has {len(data):,} of {packed:,} bytes")
    return size


def _zstd_size(data: bytes) -> int:
    """Of RFC 8878, 3.1.1.1: a descriptor, a window, a dictionary's number, and the size."""
    if not data.startswith(_ZSTD_MARK):
        raise ValueError("a chunk is not a Zstandard frame")
    descriptor = data[4]
    is_single = descriptor >> 5 & 1
    at = 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3]
    width = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
    if not width or len(data) < at + width:
        raise ValueError("a chunk does not say how large it is")
    return int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)


def _by_stream(make: Callable[[Any], Any]) -> Callable[[Any, bytes, int], bytes]:
    """Unpacks what has no size, up to the most that it may have; it may be several in a row."""

    def unpack(codec: Any, data: bytes, most_bytes: int) -> bytes:
        found: list[bytes] = []
        while data:
            unpacking = make(codec)
            try:
                found.append(unpacking.decompress(data, most_bytes + 1))
            except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
                raise ValueError(str(error)) from error
            _check(sum(map(len, found)), most_bytes)
            if not unpacking.eof:
                raise ValueError("a chunk has no end")
            data = unpacking.unused_data
        return b"".join(found)

    return unpack


def _make_lzma(codec: Any) -> lzma.LZMADecompressor:
    if codec.format == lzma.FORMAT_RAW:
        raise ValueError("packed by LZMA without a header; write it with another codec")
    return lzma.LZMADecompressor(codec.format, _MOST_LZMA_BYTES)


_GZIP = 16 + zlib.MAX_WBITS
_COMPRESSORS: Mapping[str, Callable[[Any, bytes, int], Any]] = {
    "blosc": _by_size(_blosc_size),
    "zstd": _by_size(_zstd_size),
    "lz4": _by_size(lambda data: struct.unpack_from("<I", data)[0]),
    "zlib": _by_stream(lambda codec: zlib.decompressobj()),
    "gzip": _by_stream(lambda codec: zlib.decompressobj(_GZIP)),
    "bz2": _by_stream(lambda codec: bz2.BZ2Decompressor()),
    "lzma": _by_stream(_make_lzma),
}
