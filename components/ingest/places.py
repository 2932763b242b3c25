"""Which record goes where: a pure function of the seed and the record ids."""

import math

import numpy as np

from image_pipeline.components.hashing import mix64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def order_keys(record_ids: np.ndarray, seed: int) -> np.ndarray:
    """Hashes each record id with the seed; sorting by the result is a seeded global shuffle.

    Args:
      record_ids: uint64 [n, 2], the two halves of each 16-byte record id.
      seed: any integer.

    Returns:
      uint64 [n].
    """
    seed_hash = mix64(np.array([seed % 2**64], np.uint64) + _GOLDEN)
    return mix64(mix64(record_ids[:, 0] ^ seed_hash) ^ record_ids[:, 1])


def count_shards(total_bytes: int, records: int, shard_bytes: int, shards: int | None) -> int:
    """The number of shards of a split: as configured, or so that each is near `shard_bytes`.

    Never more than there are records, and at least one.
    """
    return min(records, shards or max(1, math.ceil(total_bytes / shard_bytes)))


def shard_edges(records: int, shards: int) -> np.ndarray:
    """Where each shard begins and ends; the shards' counts differ by at most one.

    Returns:
      int64 [shards + 1], from 0 to `records`; shard i holds [edges[i], edges[i + 1]).
    """
    return np.arange(shards + 1, dtype=np.int64) * records // shards
