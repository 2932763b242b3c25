"""A small data set decoded once, and held in memory as pixels."""

import cv2
import numpy as np

from components import record
from components.errors import UserError
from components.feeding.index import RecordIndex
from components.feeding.stored import StoredRecords


class DecodedRecords:
    """Reads records as `StoredRecords` does, but decodes each only once. Threads may share it.

    A decoded record is the same record stored as `raw`, so nothing after it needs to know: OpenCV
    decodes to the very pixels that TensorFlow's accurate decoder gives.
    """

    def __init__(self, index: RecordIndex):
        """Decodes nothing yet."""
        self._index = index
        self._records = StoredRecords(index)
        # Threads that meet at a record decode it twice, to the same bytes: no lock is needed.
        self._decoded: list[bytes | None] = [None] * len(index)

    def read(self, row: int, verify: bool = False) -> bytes:
        """Reads one record; see `StoredRecords.read`. Checksums are verified when it is decoded.

        Raises:
          UserError: if it cannot be read or decoded.
        """
        serialized = self._decoded[row]
        if serialized is None:
            stored = self._records.read(row, verify)
            try:
                serialized = self._decoded[row] = decode_record(stored)
            except ValueError as error:
                raise UserError(
                    f"{self._index.describe(row)} is damaged: {error}; run ingest again, or set "
                    "feeding.bad_records=skip to go on without it."
                ) from error
        return serialized


def decode_record(serialized: bytes) -> bytes:
    """Turns a record's image into pixels: the record as ingest would have stored it as `raw`.

    Raises:
      ValueError: if it is no such record, or its image cannot be decoded.
    """
    values = record.decode_example(serialized)
    if values[record.FORMAT] == b"raw":
        return serialized
    gray = values[record.CHANNELS] == 1
    flags = cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR_RGB
    encoded = np.frombuffer(values[record.IMAGE], np.uint8)
    pixels = cv2.imdecode(encoded, flags | cv2.IMREAD_IGNORE_ORIENTATION)
    if pixels is None:
        raise ValueError("its image cannot be decoded")
    return record.encode_example(values | {record.IMAGE: pixels.tobytes(), record.FORMAT: b"raw"})
