"""Whether the index has the places of all records: one after the other, shard by shard."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from image_pipeline.components.dataset.tfrecord import FOOTER_BYTES, HEADER_BYTES

_COLUMNS = ("split", "shard", "record_offset", "record_length", "payload_length")


class Places(NamedTuple):
    """A shard that has records: its split, its number in it, how many they are, and its size."""

    split: str
    shard: int
    records: int
    bytes: int


@functools.lru_cache(maxsize=256)
def find_misplaced(shards: tuple[Places, ...], path: str, *state: int) -> str | None:
    """Says in which shard the index has other places than records can have; None if in none.

    Args:
      shards: as the manifest lists them, in its order.
      path: the index; its columns have the right types.
      *state: its size, modification time and inode, for the cache.
    """
    expected, row, end = _Expected(shards), 0, 0
    with pq.ParquetFile(path, read_dictionary=["split"]) as parquet:
        for batch in parquet.iter_batches(columns=list(_COLUMNS)):
            if row + len(batch) > expected.records:
                row = -1
                break
            is_right, end = expected.compare(batch, row, end)
            if not is_right.all():
                wrong = shards[expected.find_shards(row + int(np.argmin(is_right)))]
                return (
                    f"its rows of shard {wrong.shard} of {wrong.split!r} are not those of its "
                    "records"
                )
            row += len(batch)
    if row == expected.records:
        return None
    return f"it must have {expected.records:,} rows, one for each record of the manifest"


class _Expected:
    """What the manifest says of the rows of an index."""

    def __init__(self, shards: Sequence[Places]):
        self.first_rows = np.cumsum([0, *(shard.records for shard in shards)])
        self.records = int(self.first_rows[-1])
        self.bytes = np.array([shard.bytes for shard in shards], np.int64)
        self.shard = np.array([shard.shard for shard in shards], np.int64)
        # As bytes: what is no UTF-8 can be compared as well.
        self.codes = {
            shard.split.encode(errors="surrogatepass"): code for code, shard in enumerate(shards)
        }
        self.split = np.array(
            [self.codes[shard.split.encode(errors="surrogatepass")] for shard in shards], np.int64
        )

    def find_shards(self, rows: np.ndarray | int) -> np.ndarray:
        """The numbers of the shards that rows are of."""
        return np.searchsorted(self.first_rows, rows, "right") - 1

    def compare(self, batch: pa.RecordBatch, row: int, end: int) -> tuple[np.ndarray, int]:
        """Compares rows with what follows from those before.

        Args:
          batch: at least one row.
          row: the number of its first one.
          end: where the record before that ends in its shard.

        Returns:
          Which of them are right (bool [rows]), and where the last of their records ends.
        """
        rows = np.arange(row, row + len(batch))
        of_shard = self.find_shards(rows)
        offset, length, payload = (_read_numbers(batch[name]) for name in _COLUMNS[2:])
        ends = offset + length + (HEADER_BYTES + FOOTER_BYTES)
        is_first = rows == self.first_rows[of_shard]
        starts = np.where(is_first, 0, np.concatenate([[end], ends[:-1]]))
        split = batch["split"]
        names = split.dictionary.cast(pa.binary()).to_pylist()
        codes = np.array([*(self.codes.get(name, -1) for name in names), -1], np.int64)
        is_right = codes[_read_numbers(split.indices)] == self.split[of_shard]
        is_right &= _read_numbers(batch["shard"]) == self.shard[of_shard]
        is_right &= (offset == starts) & (length >= 0) & (ends <= self.bytes[of_shard])
        return is_right & (payload >= 0) & (payload <= length), int(ends[-1])


def _read_numbers(column: pa.Array) -> np.ndarray:
    """A column as int64; -1 for an empty cell, which no place is."""
    return column.fill_null(-1).to_numpy().astype(np.int64)
