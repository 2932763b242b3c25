"""The TFRecord container: how records are laid out in a file.

A record is `length (8 bytes), masked CRC of the length (4), data, masked CRC of the data (4)`, all
little-endian, the CRC being CRC-32C. Source: tensorflow/core/lib/io/record_writer.h.
"""

import struct
from collections.abc import Iterator
from typing import Protocol

import google_crc32c

HEADER_BYTES = 12
FOOTER_BYTES = 4
_MASK_DELTA = 0xA282EAD8


class Readable(Protocol):
    """Anything that can be read like a binary file."""

    def read(self, size: int, /) -> bytes:
        """Reads at most `size` bytes."""


class CorruptRecord(Exception):
    """A record's checksum or length does not fit its bytes."""

    def __init__(self, problem: str, position: int | None = None):
        """Takes what is wrong, and the record's number in its file if it is known."""
        super().__init__(problem if position is None else f"record {position}: {problem}")
        self.problem = problem


def frame(data: bytes) -> bytes:
    """Frames one record's data as it is stored in the file."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, masked_crc(length), data, masked_crc(data)))


def unframe(framed: bytes) -> bytes:
    """Takes one record's data out of its frame; the inverse of `frame`.

    Raises:
      CorruptRecord: if a checksum is wrong, or the length is not that of the frame.
    """
    header, data = framed[:HEADER_BYTES], framed[HEADER_BYTES:-FOOTER_BYTES]
    length = read_length(header)
    if length != len(data):
        raise CorruptRecord(f"its length field says {length} bytes, but there are {len(data)}")
    if masked_crc(data) != framed[-FOOTER_BYTES:]:
        raise CorruptRecord("its data or the data's checksum is damaged")
    return data


def read_records(file: Readable) -> Iterator[bytes]:
    """Reads a file's records in order and verifies both checksums of each.

    Raises:
      CorruptRecord: naming the record's position, if a checksum is wrong or the file ends early.
    """
    position = 0
    while header := file.read(HEADER_BYTES):
        if len(header) < HEADER_BYTES or masked_crc(header[:8]) != header[8:]:
            raise CorruptRecord("its length field is damaged or cut off", position)
        (length,) = struct.unpack("<Q", header[:8])
        body = file.read(length + FOOTER_BYTES)
        data, crc = body[:length], body[length:]
        if len(body) < length + FOOTER_BYTES or masked_crc(data) != crc:
            raise CorruptRecord("its data is damaged or cut off", position)
        yield data
        position += 1


def split_records(block: bytes) -> tuple[list[bytes], int]:
    """Takes the whole records that a part of a file begins with, if it begins with a record.

    Returns:
      Their data, and the bytes that they take; if there are none, the bytes that the first takes.

    Raises:
      CorruptRecord: if a checksum is wrong.
    """
    records: list[bytes] = []
    start = 0
    while len(block) - start >= HEADER_BYTES:
        header = block[start : start + HEADER_BYTES]
        if masked_crc(header[:8]) != header[8:]:
            raise CorruptRecord("its length field is damaged")
        (length,) = struct.unpack("<Q", header[:8])
        end = start + HEADER_BYTES + length + FOOTER_BYTES
        if end > len(block):
            return records, start if records else end
        records.append(unframe(block[start:end]))
        start = end
    return records, start if records else HEADER_BYTES


def read_length(header: bytes) -> int:
    """The length of the data after a record's header; raises CorruptRecord if that is invalid."""
    if len(header) < HEADER_BYTES or masked_crc(header[:8]) != header[8:]:
        raise CorruptRecord("its length field or that field's checksum is damaged")
    return struct.unpack("<Q", header[:8])[0]


def masked_crc(data: bytes) -> bytes:
    """CRC-32C, rotated and shifted, since a CRC of data that contains CRCs would be weak."""
    return mask_crc(google_crc32c.value(data))


def mask_crc(crc: int) -> bytes:
    """The bytes that a CRC-32C is stored as."""
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)
