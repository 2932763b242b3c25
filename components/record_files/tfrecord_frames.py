"""Where the records of a TFRecord file are, plain or packed as gzip or zlib."""

import contextlib
import functools
import io
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.archives.file_bytes import ReadAt, open_packed
from image_pipeline.components.dataset.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    CorruptRecord,
    mask_crc,
    read_length,
)
from image_pipeline.components.sources.rows import LOST

_GZIP = b"\x1f\x8b\x08"
_DEFLATE = 8  # the lower half of a zlib stream's first byte
# A tf.Example is a protocol buffer, of which there are none of more bytes.
_MOST_BYTES = 2**31
# The upper bytes of the length of all records of less than 16 MiB: where a header may be.
_LENGTH_ZEROS, _ZEROS_AT = 5, 3
_SMALL_BYTES = 2**15  # a record of no more is read whole: one call costs less than several
_PAGE_BYTES = 2**12
_BLOCK_BYTES = 2**20
_CUT = f"the file ends within it; {LOST}"


class Frame(NamedTuple):
    """A record: the place of its data in the unpacked file, and a buffer that holds it."""

    number: int
    """From 1 on."""
    start: int
    length: int
    buffer: Any
    at: int
    """Where the data begins in the buffer."""
    problem: str | None = None


def find_packing(path: str) -> str:
    """How a file is packed: "", "gzip" or "zlib"; its name says nothing of it.

    Raises:
      FileNotFoundError: if there is no such file.
    """
    head = files.read_file(path, 0, HEADER_BYTES)
    with contextlib.suppress(CorruptRecord):
        read_length(head)
        return ""
    if head.startswith(_GZIP):
        return "gzip"
    is_zlib = len(head) > 1 and head[0] & 15 == _DEFLATE and (head[0] << 8 | head[1]) % 31 == 0
    return "zlib" if is_zlib else ""


def list_frames(path: str) -> Iterator[Frame]:
    """The records of a file in their order, without reading what of them is not looked at.

    In a plain file on this machine a damaged header costs what is up to the next good one;
    elsewhere it costs the rest of the file.
    """
    packing = find_packing(path)
    if packing:
        file = open_packed(path, packing, files.stat_file(path)[1])
        unpacked: Any = io.BufferedReader(ReadAt(lambda at, most: file.pread(most, at)), 2**16)
        yield from _stream(unpacked, file.pread)
    elif not files.is_local(path):
        with files.open_input(path) as file:
            yield from _stream(file)
    else:
        with open(path, "rb", buffering=0) as file:
            yield from _walk(file.fileno())


def check_data(frame: Frame) -> bool:
    """Whether a record's data has its checksum."""
    end, crc = frame.at + frame.length, 0
    for at in range(frame.at, end, _BLOCK_BYTES):
        crc = google_crc32c.extend(crc, frame.buffer[at : min(at + _BLOCK_BYTES, end)])
    return mask_crc(crc) == frame.buffer[end : end + FOOTER_BYTES]


class _Pages:
    """A part of a file, of which only what is asked for is read.

    Not mapped memory: a file that is cut off meanwhile gives an error, where a map would end the
    process.
    """

    def __init__(self, read: Callable[[int, int], bytes]):
        """Takes what reads so many bytes from a place on; positions are the file's."""
        self._read, self._at, self._page = read, -1, b""

    def __getitem__(self, key: int | slice) -> Any:
        """A byte, or some."""
        if isinstance(key, slice):
            return self._read(key.stop - key.start, key.start)
        if key // _PAGE_BYTES != self._at:
            self._at = key // _PAGE_BYTES
            self._page = self._read(_PAGE_BYTES, self._at * _PAGE_BYTES)
        return self._page[key % _PAGE_BYTES]


def _read_length(header: bytes) -> int:
    """As `read_length`; raises CorruptRecord of what no tf.Example has, too."""
    length = read_length(header)
    if length > _MOST_BYTES:
        raise CorruptRecord(f"it has {length} bytes, and no tf.Example has so many")
    return length


def _walk(file: int) -> Iterator[Frame]:
    at, number, size = 0, 0, os.fstat(file).st_size
    while at < size:
        number += 1
        start = at + HEADER_BYTES
        try:
            length = _read_length(os.pread(file, HEADER_BYTES, at))
        except CorruptRecord as error:
            yield Frame(number, start, 0, b"", 0, error.problem if start < size else _CUT)
            at = _find_header(file, at + 1, size)
            continue
        at = start + length + FOOTER_BYTES
        if at > size:
            yield Frame(number, start, length, b"", 0, _CUT)
        elif length > _SMALL_BYTES:
            yield Frame(number, start, length, _Pages(functools.partial(os.pread, file)), start)
        else:
            yield Frame(number, start, length, os.pread(file, at - start, start), 0)


def _find_header(file: int, at: int, size: int) -> int:
    """Where the next good header begins; the end if there is none."""
    while at < size:
        block = os.pread(file, _BLOCK_BYTES, at)
        for start in _may_begin(np.frombuffer(block, np.uint8)).tolist():
            with contextlib.suppress(CorruptRecord):
                read_length(block[start : start + HEADER_BYTES])
                return at + start
        at += max(1, len(block) - HEADER_BYTES)
    return size


def _stream(file: BinaryIO, pread: Callable[[int, int], bytes] | None = None) -> Iterator[Frame]:
    """The records of what is read on; of large ones only what is looked at, by `pread`."""
    start, number = HEADER_BYTES, 0
    buffer: Any
    while True:
        number += 1
        try:
            header = file.read(HEADER_BYTES)
            if not header:
                return
            length = _read_length(header)
            if pread is not None and length > _BLOCK_BYTES:
                file.seek(start + length)
                is_cut = len(file.read(FOOTER_BYTES)) < FOOTER_BYTES
                buffer, at = _Pages(pread), start
            else:
                data = file.read(length + FOOTER_BYTES)
                is_cut, buffer, at = len(data) < length + FOOTER_BYTES, data, 0
        except (CorruptRecord, OSError, EOFError, zlib.error) as error:
            problem = f"{error}; {LOST}"
            yield Frame(number, start, 0, b"", 0, problem)
            return
        yield Frame(number, start, length, buffer, at, _CUT if is_cut else None)
        start += length + FOOTER_BYTES + HEADER_BYTES


def _may_begin(block: np.ndarray) -> np.ndarray:
    """Where headers may be in a part of a file, uint8 [n]: int64 [places].

    The checksum of a length is not 0, so that a run of zeros has none.
    """
    count = len(block) - HEADER_BYTES + 1
    if count <= 0:
        return np.zeros(0, np.int64)
    is_filled = block != 0
    ends = [is_filled[at : at + count] for at in range(_ZEROS_AT, HEADER_BYTES)]
    upper, crc = ends[:_LENGTH_ZEROS], ends[_LENGTH_ZEROS:]
    return np.flatnonzero(np.logical_or.reduce(crc) & ~np.logical_or.reduce(upper))
