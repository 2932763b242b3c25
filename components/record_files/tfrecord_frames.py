"""Where the records of a TFRecord file are, plain or packed as gzip or zlib."""

import contextlib
import functools
import io
import itertools
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.archives.file_bytes import open_packed
from image_pipeline.components.dataset.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    CorruptRecord,
    mask_crc,
    read_length,
)
from image_pipeline.components.sources.rows import LOST
from image_pipeline.components.stores.remote import ReadAt

_GZIP = b"\x1f\x8b\x08"
_DEFLATE = 8  # the lower half of a zlib stream's first byte
# A tf.Example is a protocol buffer, of which there are none of more bytes.
_MOST_BYTES = 2**31
# The upper bytes of the length of all records of less than 16 MiB: where a header may be.
_LENGTH_ZEROS, _ZEROS_AT = 5, 3
_SMALL_BYTES = 2**15  # a record of no more is read whole: one call costs less than several
_PAGE_BYTES = 2**12
_BLOCK_BYTES = 2**20
_UNREADABLE = (OSError, EOFError, zlib.error)  # what is raised within what is packed, or far away
_CUT = f"the file ends within it; {LOST}"

_Read = Callable[[int, int], bytes]
"""Reads so many bytes, or fewer at the end of the file, from a place on."""


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

    A damaged header costs what is up to the next good one.
    """
    if packing := find_packing(path):
        packed = open_packed(path, packing, files.stat_file(path)[1])
        unpacked = io.BufferedReader(ReadAt(lambda at, most: packed.pread(most, at)), 2**16)
        yield from _walk(_read_at(unpacked), _BLOCK_BYTES, _UNREADABLE)
    elif files.is_local(path):
        with open(path, "rb", buffering=0) as file:
            yield from _walk(functools.partial(os.pread, file.fileno()), _SMALL_BYTES)
    else:
        with files.open_input(path) as file:
            yield from _walk(_read_at(file), _MOST_BYTES, _UNREADABLE)


def _read_at(file: BinaryIO) -> _Read:
    def read(size: int, at: int) -> bytes:
        file.seek(at)
        return file.read(size)

    return read


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

    def __init__(self, read: _Read):
        """Positions are the file's."""
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
        raise CorruptRecord(f"it has {length} bytes, more than a tf.Example can have")
    return length


def _walk(
    read: _Read, whole_bytes: int, unreadable: tuple[type[Exception], ...] = ()
) -> Iterator[Frame]:
    """The records; those of no more than `whole_bytes` are read as a whole."""
    at = 0
    for number in itertools.count(1):
        start = at + HEADER_BYTES
        try:
            if not (header := read(HEADER_BYTES, at)):
                return
            try:
                length = _read_length(header)
            except CorruptRecord as error:
                at = _find_header(read, at + 1)
                problem = _CUT if len(header) < HEADER_BYTES else error.problem
                yield Frame(number, start, 0, b"", 0, problem)
                continue
            at = start + length + FOOTER_BYTES
            first = start if length <= whole_bytes else at - FOOTER_BYTES
            data = read(at - first, first)
        except unreadable as error:
            yield Frame(number, start, 0, b"", 0, f"{error}; {LOST}")
            return
        cut = _CUT if len(data) < at - first else None
        buffer, place = (data, 0) if first == start else (_Pages(read), start)
        yield Frame(number, start, length, buffer, place, cut)


def _find_header(read: _Read, at: int) -> int:
    """Where the next good header begins; the end if there is none."""
    while block := read(_BLOCK_BYTES, at):
        for start in _may_begin(np.frombuffer(block, np.uint8)).tolist():
            with contextlib.suppress(CorruptRecord):
                read_length(block[start : start + HEADER_BYTES])
                return at + start
        at += max(1, len(block) - HEADER_BYTES)
    return at


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
