"""Stored images: of a record's features, or of a row of the index, by random access to the shards.

Records are read by `pread`, not through memory maps: it lets other Python threads run while it
waits for the disk, where a page fault of a map stops them all, and a shard that is cut while it is
read gives an error, where a map would end the process.
"""

import collections
import os
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import RecordIndex
from image_pipeline.components.dataset.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    CorruptRecord,
    unframe,
)
from image_pipeline.components.errors import UserError


class StoredImage(NamedTuple):
    """An image as a record holds it; sides in pixels."""

    encoded: bytes | memoryview
    height: int
    width: int
    channels: int
    is_raw: bool


IMAGE_KEYS = (record.IMAGE, record.HEIGHT, record.WIDTH, record.CHANNELS, record.FORMAT)


def take_image(features: Mapping[str, Any]) -> StoredImage:
    """The image of a record, of its features at least those of `IMAGE_KEYS`."""
    encoded, height, width, channels, stored_as = (features[key] for key in IMAGE_KEYS)
    return StoredImage(encoded, int(height), int(width), int(channels), stored_as == record.RAW)


class StoredRecords:
    """Reads serialized records by their row in the index. Threads may share it.

    At most `max_open` files are held open, those used last: a data set may have more shards than a
    process may open files.
    """

    def __init__(self, index: RecordIndex, max_open: int = 128):
        """Opens files only when they are read."""
        self._index = index
        self._max_open = max_open
        self._files: collections.OrderedDict[int, BinaryIO] = collections.OrderedDict()
        self._lock = threading.Lock()

    def read(self, row: int, verify: bool = False) -> bytes:
        """Reads one record.

        Args:
          row: of the index.
          verify: whether its checksums are computed, which takes 0.1 ms a megabyte.

        Returns:
          The serialized tf.train.Example.

        Raises:
          UserError: if the shard ends before the record, or a checksum is wrong.
        """
        start, length = int(self._index.offset[row]), int(self._index.length[row])
        size = HEADER_BYTES + length + FOOTER_BYTES
        file = self._file(int(self._index.shard[row]))
        framed = os.pread(file.fileno(), size, start)
        if len(framed) < size:
            raise self._bad_record(row, "the shard ends before it")
        if not verify:
            return framed[HEADER_BYTES:-FOOTER_BYTES]
        try:
            return unframe(framed)
        except CorruptRecord as error:
            raise self._bad_record(row, error.problem) from error

    def read_image(self, row: int, verify: bool = False) -> StoredImage:
        """The image of one record, without parsing the record; else as `read`."""
        index, serialized = self._index, self.read(row, verify)
        return StoredImage(
            # The image is what a record ends with.
            memoryview(serialized)[len(serialized) - int(index.image_length[row]) :],
            int(index.height[row]),
            int(index.width[row]),
            int(index.channels[row]),
            bool(index.is_raw[row]),
        )

    def _file(self, shard: int) -> BinaryIO:
        with self._lock:
            file = self._files.pop(shard, None)
            if file is None:
                file = self._open(shard)
                while len(self._files) >= self._max_open:
                    # Not closed here: another thread may read it. It closes with its last user.
                    self._files.popitem(last=False)
            self._files[shard] = file  # Last in the order: the one used least recently goes first.
            return file

    def _open(self, shard: int) -> BinaryIO:
        path = self._index.shard_paths[shard]
        try:
            return open(path, "rb", buffering=0)
        except OSError as error:
            raise UserError(f"cannot read the shard {path}: {error}; run ingest again.") from error

    def _bad_record(self, row: int, problem: str) -> UserError:
        return UserError(
            f"{self._index.describe(row)} is damaged: {problem}; run ingest again, or set "
            "feeding.bad_records=skip to go on without it."
        )
