"""Random access to the records of TFRecord shards, by memory maps and the data set's index."""

import collections
import mmap
import threading

import numpy as np

from components.errors import UserError
from components.feeding.index import RecordIndex
from components.tfrecord import FOOTER_BYTES, HEADER_BYTES, CorruptRecord, unframe


class MappedRecords:
    """Reads serialized records by their row in the index. Threads may share it.

    A map holds a file open, so at most `max_open` are held, those used last: a data set may have
    more shards than a process may open files.
    """

    def __init__(self, index: RecordIndex, max_open: int = 128):
        """Opens nothing yet."""
        self._index = index
        self._max_open = max_open
        self._maps: collections.OrderedDict[int, mmap.mmap] = collections.OrderedDict()
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
        framed = self._map(int(self._index.shard[row]))[start : start + size]
        if len(framed) < size:
            raise self._bad_record(row, "the shard ends before it")
        if not verify:
            return framed[HEADER_BYTES:-FOOTER_BYTES]
        try:
            return unframe(framed)
        except CorruptRecord as error:
            raise self._bad_record(row, error.problem) from error

    def read_many(self, rows: np.ndarray, verify: bool = False) -> list[bytes]:
        """Reads the records of int64 [n] rows."""
        return [self.read(row, verify) for row in rows.tolist()]

    def _map(self, shard: int) -> mmap.mmap:
        with self._lock:
            mapped = self._maps.pop(shard, None)
            if mapped is None:
                mapped = self._open(shard)
                while len(self._maps) >= self._max_open:
                    # Not closed here: another thread may read it. It closes with its last user.
                    self._maps.popitem(last=False)
            self._maps[shard] = mapped  # Last in the order: the one used least recently goes first.
            return mapped

    def _open(self, shard: int) -> mmap.mmap:
        path = self._index.shard_paths[shard]
        try:
            with open(path, "rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped.
            raise UserError(f"cannot read the shard {path}: {error}; run ingest again.") from error

    def _bad_record(self, row: int, problem: str) -> UserError:
        return UserError(
            f"{self._index.describe(row)} is damaged: {problem}; run ingest again, or set "
            "feeding.bad_records=skip to go on without it."
        )
