"""The TFRecord container: how a record lies in a file.

A record is `length (8 bytes), masked CRC of the length (4), data, masked CRC of the data (4)`, all
little-endian, the CRC being CRC-32C. Source: tensorflow/core/lib/io/record_writer.h.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

HEADER_BYTES = 12
FOOTER_BYTES = 4
_MASK_DELTA = 0xA282EAD8


class CorruptRecord(Exception):
    """A record's checksum or length does not fit its bytes."""


def frame(data: bytes) -> bytes:
    """Wraps one record's data as it lies in the file."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _masked_crc(length), data, _masked_crc(data)))


def read_records(file: BinaryIO) -> Iterator[bytes]:
    """Reads a file's records in order and verifies both checksums of each.

    Raises:
      CorruptRecord: naming the record's position, if a checksum is wrong or the file ends early.
    """
    position = 0
    while header := file.read(HEADER_BYTES):
        if len(header) < HEADER_BYTES or _masked_crc(header[:8]) != header[8:]:
            raise CorruptRecord(f"record {position}: its length field is damaged or cut off")
        (length,) = struct.unpack("<Q", header[:8])
        body = file.read(length + FOOTER_BYTES)
        data, crc = body[:length], body[length:]
        if len(body) < length + FOOTER_BYTES or _masked_crc(data) != crc:
            raise CorruptRecord(f"record {position}: its data is damaged or cut off")
        yield data
        position += 1


def _masked_crc(data: bytes) -> bytes:
    """CRC-32C, rotated and shifted so that a CRC of data that contains CRCs stays strong."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)
