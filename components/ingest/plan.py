"""Decides where every prepared source goes: duplicate, quarantined, or a place in a shard.

A record's place is a pure function of the seed, its id and, for its split, its unit (see `groups`).

Arithmetic on columns only (NumPy): no files, no Beam; for at most 2^31 sources. It takes about 95
bytes of memory per source, or 160 with near-duplicates and strata.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from image_pipeline.components.errors import UserError, raise_together
from image_pipeline.components.hashing import mix64
from image_pipeline.components.ingest.groups import (
    assign_splits,
    cluster_hashes,
    follow_paths,
    join_groups,
    stratify_splits,
)
from image_pipeline.components.meaning.options import IngestOptions

NOWHERE = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# Measured for the stage that plans, with the rows it reads (docs/scale.md): 231 B a source, and 65
# more for near-duplicates and strata, beside what the process holds anyway.
_BYTES_PER_SOURCE, _BYTES_FURTHER, _BYTES_OF_PROCESS = 231, 65, 10**9


@dataclasses.dataclass(frozen=True)
class Sources:
    """What the plan knows about n sources, in the order of the listing.

    Attributes:
      is_good: bool [n], False for sources that are not usable, whose other columns mean nothing.
      is_skipped: bool [n], those of them that are no images, so that they are not quarantined.
      content: uint64 [n, 2], the first 16 bytes of the content's SHA-256.
      record_id: uint64 [n, 2].
      group: uint64 [n], a hash of the group, or of the content where there is no group.
      forced_split: int32 [n], position in `options.splits`, or NOWHERE.
      label: int32 [n], a code for each label.
      label_hash: int64 [n], a code or hash of its labels: class, tags or value, mask and boxes.
      stratum: int32 [n], a code for what `options.stratify` names, which is mostly the label.
      stored_bytes: int64 [n].
      perceptual_hash: uint64 [n], all 0 unless `options.near_duplicates` is set.
    """

    is_good: np.ndarray
    is_skipped: np.ndarray
    content: np.ndarray
    record_id: np.ndarray
    group: np.ndarray
    forced_split: np.ndarray
    label: np.ndarray
    label_hash: np.ndarray
    stratum: np.ndarray
    stored_bytes: np.ndarray
    perceptual_hash: np.ndarray


def memory_to_plan(count: int, options: IngestOptions) -> int:
    """About how many bytes of memory the process needs that plans this many sources."""
    has_more = options.near_duplicates is not None or bool(options.stratify)
    return _BYTES_OF_PROCESS + count * (_BYTES_PER_SOURCE + has_more * _BYTES_FURTHER)


def empty_sources(count: int) -> Sources:
    """Empty columns for this many sources, so that nothing is held twice while they are filled."""
    return Sources(
        is_good=np.zeros(count, bool),
        is_skipped=np.zeros(count, bool),
        content=np.zeros((count, 2), np.uint64),
        record_id=np.zeros((count, 2), np.uint64),
        group=np.zeros(count, np.uint64),
        forced_split=np.zeros(count, np.int32),
        label=np.zeros(count, np.int32),
        label_hash=np.zeros(count, np.int64),
        stratum=np.zeros(count, np.int32),
        stored_bytes=np.zeros(count, np.int64),
        perceptual_hash=np.zeros(count, np.uint64),
    )


class EmptySplit(UserError):
    """A split would have no image.

    Attributes:
      copied: the splits all of whose images are copies of others.
    """

    def __init__(self, message: str, copied: Sequence[str] = ()):
        """Takes what is wrong, and those splits."""
        super().__init__(message)
        self.copied = tuple(copied)


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where n sources go.

    Attributes:
      shard: int32 [n], number of the shard counted over all splits, or NOWHERE.
      position: int32 [n], place within the shard, or NOWHERE.
      original: int32 [n], for an excluded duplicate the source it repeats, or NOWHERE.
      copies: int32 [n], the first source with the same bytes (itself, if there is none before).
      conflicts: int32 [n], for a source that is quarantined because one of the same bytes has
        another label, the first such one, or NOWHERE.
      clusters: int32 [n], the first source that looks alike (itself, if there is none before).
      units: uint64 [n], equal for sources that must share a split.
      split_shards: each split's number of shards, in the order of `options.splits`.
    """

    shard: np.ndarray
    position: np.ndarray
    original: np.ndarray
    copies: np.ndarray
    conflicts: np.ndarray
    clusters: np.ndarray
    units: np.ndarray
    split_shards: tuple[int, ...]


def place_sources(sources: Sources, options: IngestOptions) -> Placement:
    """Places every source; the same sources and options always give the same places.

    Raises:
      UserError: with all that is wrong: splits that would be empty (alone: `EmptySplit`),
        duplicates or conflicting labels that are not allowed.
    """
    problems: list[UserError] = []
    # Exact copies first: everything else is decided for the first of equal files.
    copies = first_copies(sources.content, sources.is_good)
    is_copy = sources.is_good & (copies != np.arange(len(copies)))
    if options.duplicates == "error" and is_copy.any():
        told = f"{is_copy.sum()} files repeat the bytes of another one, and ingest.duplicates=error"
        problems.append(UserError(f"{told}; remove them, or set ingest.duplicates=keep_first."))
    # Equal bytes with different labels: one is wrong, and nobody knows which, so none is written.
    conflicts = np.full(len(copies), NOWHERE, np.int32)
    if options.conflicting_labels != "keep":
        conflicts = find_conflicts(copies, sources.label_hash, sources.is_good)
    lost = int((conflicts != NOWHERE).sum())
    if lost and options.conflicting_labels == "error":
        problems.append(
            UserError(
                f"{lost} files have the bytes of a file with {options.label_kind.another}, and "
                "ingest.conflicting_labels=error; remove those that are wrong, or set "
                "ingest.conflicting_labels=quarantine, which lists them."
            )
        )
    sources = dataclasses.replace(sources, is_good=sources.is_good & (conflicts == NOWHERE))
    is_copy &= sources.is_good
    excluded = is_copy if options.duplicates == "keep_first" else np.zeros_like(is_copy)
    is_written = sources.is_good & ~excluded
    # What looks alike or shares a group must share a split, or evaluation would see training data.
    # Excluded copies still join units: they may be of another group.
    clusters = find_clusters(sources, options)
    units = join_units(sources, copies, clusters)
    splits = _choose_splits(sources, is_written, copies, units, options)
    # Records in the order of their keys, cut into shards of equal counts.
    shard = np.full(len(splits), NOWHERE, np.int32)
    position = np.full(len(splits), NOWHERE, np.int32)
    split_shards: list[int] = []
    filled = {*splits[is_written].tolist()}
    if empty := [name for code, name in enumerate(options.splits) if code not in filled]:
        problems.append(_explain_empty(empty, sources, is_written, splits, lost, options))
    raise_together(problems)
    for code in range(len(options.splits)):
        members = np.flatnonzero(is_written & (splits == code))
        ids = sources.record_id[members]
        keys = order_keys(ids, options.seed)
        members = members[np.lexsort((ids[:, 1], ids[:, 0], keys))]
        stored_bytes = int(sources.stored_bytes[members].sum())
        count = count_shards(stored_bytes, len(members), options.shard_bytes, options.shards)
        edges = shard_edges(len(members), count)
        local = np.repeat(np.arange(count), np.diff(edges))
        shard[members] = sum(split_shards) + local
        position[members] = np.arange(len(members)) - edges[local]
        split_shards.append(count)
    original = np.where(excluded, copies, np.int32(NOWHERE))
    return Placement(
        shard, position, original, copies, conflicts, clusters, units, tuple(split_shards)
    )


def find_conflicts(copies: np.ndarray, label: np.ndarray, is_good: np.ndarray) -> np.ndarray:
    """Finds sources of the same bytes that do not agree on the label.

    Args:
      copies: as `first_copies` gives them.
      label: int [n].
      is_good: bool [n]; the others are in no conflict.

    Returns:
      int32 [n]: for each source of such a set the first one of it with another label; else NOWHERE.
    """
    conflicts = np.full(len(copies), NOWHERE, np.int32)
    differs = np.flatnonzero(is_good & (label != label[copies]))
    first_of_set, at = np.unique(copies[differs], return_index=True)
    # Of each set, the first member and the first one that contradicts it.
    contradicts = np.full(len(copies), NOWHERE, np.int32)
    contradicts[first_of_set] = differs[at]
    second = contradicts[copies]
    in_conflict = is_good & (second != NOWHERE)
    agrees = label == label[copies]
    conflicts[in_conflict] = np.where(agrees, second, copies)[in_conflict]
    return conflicts


def first_copies(content: np.ndarray, is_good: np.ndarray) -> np.ndarray:
    """Finds, for each source, the first one with the same content.

    Args:
      content: uint64 [n, 2].
      is_good: bool [n]; the others are never anyone's copy.

    Returns:
      int32 [n], positions; a source's own position where nothing before it is equal.
    """
    order = np.lexsort((content[:, 1], content[:, 0], ~is_good))  # stable: equal ones stay in order
    ordered = content[order]
    starts_run = np.ones(len(order), bool)
    starts_run[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts_run |= ~is_good[order]
    first_of_run = np.maximum.accumulate(np.where(starts_run, np.arange(len(order)), 0))
    copies = np.empty(len(order), np.int32)
    copies[order] = order[first_of_run]
    return copies


def find_clusters(sources: Sources, options: IngestOptions) -> np.ndarray:
    """Finds, for each source, the first one that looks alike, directly or through others.

    Returns:
      int32 [n], positions; a source's own where nothing before it looks alike, or if
      `options.near_duplicates` is None.
    """
    clusters = np.arange(len(sources.is_good), dtype=np.int32)
    if options.near_duplicates is not None:
        good = np.flatnonzero(sources.is_good)
        numbers = cluster_hashes(sources.perceptual_hash[good], options.near_duplicates)
        _, first = np.unique(numbers, return_index=True)
        clusters[good] = good[first[numbers]]
    return clusters


def join_units(sources: Sources, copies: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Joins what must share a split: exact copies, groups and clusters, and what these join.

    A unit is named by the group hash of one of its members: the smallest one, read from the last
    byte backwards, because the leading bits choose the split, and the smallest of many would
    nearly always choose the first. So a unit of one group or content keeps that one's hash. An
    image that is added to a unit of k different groups or contents (or joins units with k in all)
    moves those of another split than its own only if its hash is the smallest now: once in k + 1
    times. All other units stay where they are.

    Returns:
      uint64 [n], equal for sources of one unit.
    """
    is_single = clusters == np.arange(len(clusters))
    if is_single.all() and (sources.group == sources.group[copies]).all():
        return sources.group  # The common case needs no graph.
    units = sources.group.copy()
    good = np.flatnonzero(sources.is_good)
    group = sources.group[good]
    numbers = join_groups(group, copies[good], clusters[good])
    order = np.lexsort((group.byteswap(), numbers))
    _, first = np.unique(numbers[order], return_index=True)
    units[good] = group[order[first]][numbers]
    return units


def _choose_splits(
    sources: Sources,
    is_written: np.ndarray,
    copies: np.ndarray,
    units: np.ndarray,
    options: IngestOptions,
) -> np.ndarray:
    """Chooses every source's split; what the bad ones get means nothing.

    All copies follow the first one, unless they are kept as given and their own paths name a split.
    Where its path names a split, that is its split. Otherwise paths of its unit decide, or else the
    unit's hash. To stratify, a unit counts as of the stratum
    of its first record, and units whose paths name a split are left out.

    Returns:
      int64 [n], positions in `options.splits`.
    """
    forced = np.where(sources.is_good, sources.forced_split[copies], NOWHERE)
    forced = follow_paths(forced, units)
    if not options.stratify:
        splits = np.where(forced == NOWHERE, assign_splits(units, options.splits), forced)
    else:
        splits = forced.copy()
        free = np.flatnonzero(is_written & (forced == NOWHERE))
        hashes, first, number, records = np.unique(
            units[free], return_index=True, return_inverse=True, return_counts=True
        )
        strata = sources.stratum[free[first]]
        splits[free] = stratify_splits(hashes, strata, records, options.splits)[number]
    splits = splits[copies]
    if options.duplicates == "keep_as_given":
        splits = np.where(sources.forced_split == NOWHERE, splits, sources.forced_split)
    return splits


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


def _explain_empty(
    empty: Sequence[str],
    sources: Sources,
    is_written: np.ndarray,
    splits: np.ndarray,
    lost: int,
    options: IngestOptions,
) -> EmptySplit:
    good = int(sources.is_good.sum())
    repeated = good - int(is_written.sum())
    copies = f" ({repeated} of them copies of others, of which the first is kept)"
    others = (
        f" ({lost} more have the bytes of a file with {options.label_kind.another}: remove "
        "those that are wrong, or set ingest.conflicting_labels=keep)"
    )
    keep = " Copies stay in the splits that are named with ingest.duplicates=keep_as_given."
    given = sources.forced_split[sources.is_good]
    named = {*given.tolist()} - {*splits[is_written].tolist()}
    one = len(empty) == 1
    named_splits = f"split {empty[0]!r}" if one else f"splits {', '.join(map(repr, empty))}"
    it, of_this = ("it", "this one") if one else ("them", "these")
    what = f"shares {options.splits}; add images, give {it} a larger share in ingest.splits, or"
    what += f" remove {it} there"
    if good and not (given == NOWHERE).any():
        what = f"all given with another split; add images of {of_this}"
        if options.split_pattern is None:
            what += ", or share out all of them anew with ingest.columns={split: null}"
        elif options.label_pattern is not None and options.masks is None:
            # Who says where the classes are says, without another option, that there are no splits.
            anew = f'ingest.label_pattern="{options.label_pattern}"'
            what += f", or share out all of them anew with --set '{anew}'"
    return EmptySplit(
        f"The {named_splits} would be empty: {good} usable images"
        f"{copies if repeated else ''}{others if lost else ''}, {what}.{keep if repeated else ''}",
        [name for code, name in enumerate(options.splits) if repeated and code in named],
    )
