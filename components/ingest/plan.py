"""Decides where every prepared source goes: duplicate, quarantined, or a place in a shard.

Arithmetic on columns only (NumPy): no files, no Beam. About 60 bytes of memory a source.
"""

import dataclasses

import numpy as np

from components.errors import UserError
from components.ingest.options import IngestOptions
from components.ingest.order import count_shards, order_keys, shard_edges
from components.ingest.splits import assign_splits

NOWHERE = -1


@dataclasses.dataclass(frozen=True)
class Sources:
    """What the plan knows of n sources, in the order of the listing.

    Attributes:
      is_good: bool [n], False for quarantined sources, whose other columns mean nothing.
      content: uint64 [n, 2], the first 16 bytes of the content's SHA-256.
      record_id: uint64 [n, 2].
      group: uint64 [n], a hash of the group, or of the content where there is no group.
      forced_split: int64 [n], position in `options.splits`, or NOWHERE.
      label: int64 [n], a code for each label.
      stored_bytes: int64 [n].
    """

    is_good: np.ndarray
    content: np.ndarray
    record_id: np.ndarray
    group: np.ndarray
    forced_split: np.ndarray
    label: np.ndarray
    stored_bytes: np.ndarray


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where n sources go.

    Attributes:
      shard: int64 [n], number of the shard counted over all splits, or NOWHERE.
      position: int64 [n], place within the shard, or NOWHERE.
      original: int64 [n], for an excluded duplicate the source it repeats, or NOWHERE.
      copies: int64 [n], the first source with the same bytes (itself, if there is none before).
      split_shards: each split's number of shards, in the order of `options.splits`.
    """

    shard: np.ndarray
    position: np.ndarray
    original: np.ndarray
    copies: np.ndarray
    split_shards: tuple[int, ...]


def place_sources(sources: Sources, options: IngestOptions) -> Placement:
    """Places every source; the same sources and options always give the same places.

    Raises:
      UserError: if a split would be empty, or there are duplicates and they are not allowed.
    """
    copies = first_copies(sources.content, sources.is_good)
    is_copy = sources.is_good & (copies != np.arange(len(copies)))
    if options.duplicates == "error" and is_copy.any():
        raise UserError(
            f"{is_copy.sum()} files repeat the bytes of another one and ingest.duplicates=error; "
            "remove them, or set ingest.duplicates=keep_first."
        )
    excluded = is_copy if options.duplicates == "keep_first" else np.zeros_like(is_copy)
    splits = _choose_splits(sources, copies, options)
    shard = np.full(len(copies), NOWHERE)
    position = np.full(len(copies), NOWHERE)
    split_shards: list[int] = []
    for code, name in enumerate(options.splits):
        members = np.flatnonzero(sources.is_good & ~excluded & (splits == code))
        _check_not_empty(name, len(members), int(sources.is_good.sum()), options)
        members = _sort_members(members, sources, options.seed)
        count = count_shards(
            int(sources.stored_bytes[members].sum()),
            len(members),
            options.shard_bytes,
            options.shards,
        )
        edges = shard_edges(len(members), count)
        local = np.repeat(np.arange(count), np.diff(edges))
        shard[members] = sum(split_shards) + local
        position[members] = np.arange(len(members)) - edges[local]
        split_shards.append(count)
    original = np.where(excluded, copies, NOWHERE)
    return Placement(shard, position, original, copies, tuple(split_shards))


def first_copies(content: np.ndarray, is_good: np.ndarray) -> np.ndarray:
    """Finds, for each source, the first one with the same content.

    Args:
      content: uint64 [n, 2].
      is_good: bool [n]; the others are never anyone's copy.

    Returns:
      int64 [n], positions; a source's own position where nothing before it is equal.
    """
    order = np.lexsort((content[:, 1], content[:, 0], ~is_good))  # stable: equal ones stay in order
    ordered = content[order]
    starts_run = np.ones(len(order), bool)
    starts_run[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts_run |= ~is_good[order]
    first_of_run = np.maximum.accumulate(np.where(starts_run, np.arange(len(order)), 0))
    copies = np.empty(len(order), np.int64)
    copies[order] = order[first_of_run]
    return copies


def _choose_splits(sources: Sources, copies: np.ndarray, options: IngestOptions) -> np.ndarray:
    """A split named by the path comes first, then the hash; all copies follow the first one."""
    by_hash = assign_splits(sources.group, options.splits)
    splits = np.where(sources.forced_split == NOWHERE, by_hash, sources.forced_split)
    return splits[copies]


def _sort_members(members: np.ndarray, sources: Sources, seed: int) -> np.ndarray:
    ids = sources.record_id[members]
    return members[np.lexsort((ids[:, 1], ids[:, 0], order_keys(ids, seed)))]


def _check_not_empty(split: str, members: int, good: int, options: IngestOptions) -> None:
    if not members:
        raise UserError(
            f"The split {split!r} would be empty: {good} usable images, shares {options.splits}; "
            "add images, give it a larger share in ingest.splits, or remove it there."
        )
