"""Decides where every prepared source goes: duplicate, quarantined, or a place in a shard.

A record's place is a pure function of the seed, its id and, for its split, its unit: what must
share a split (exact copies, groups, what looks alike, and what these join; see `groups.Links`).

No process sees all sources at once. They go through files by ranges of a key (see `ranges`): of the
content's hash, in which equal files are together; of the unit, in which all is that must share a
split; of the order's key, in which a record's place follows from how many come before; and of its
number in the listing, in the order of which they are written down. Only what is joined with others
is held for all: links between different groups, 130 bytes each.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from image_pipeline.components.errors import UserError, raise_together
from image_pipeline.components.hashing import mix64
from image_pipeline.components.ingest.groups import (
    Links,
    Strata,
    assign_splits,
    bit_tables,
    find_conflicts,
    first_copies,
    follow_paths,
)
from image_pipeline.components.ingest.ranges import Ranges, select
from image_pipeline.components.meaning.options import IngestOptions

NOWHERE = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# Of the process that plans, however many sources there are (docs/scale.md).
PLAN_BYTES = 10**9

# What is known of a source that is usable:
SOURCE = np.dtype(
    [
        ("number", np.int64),  # in the listing
        ("content", np.uint64, 2),  # the first 16 bytes of the content's SHA-256
        ("record_id", np.uint64, 2),
        ("group", np.uint64),  # a hash of the group, or of the content where there is no group
        ("label_hash", np.int64),  # a code or hash of its labels: class, tags or value, mask, boxes
        ("stored_bytes", np.int64),
        ("perceptual_hash", np.uint64),  # 0 unless `options.near_duplicates` is set
        ("label", np.int32),  # a code for each label
        ("stratum", np.int32),  # a code for what `options.stratify` names, mostly the label
        ("forced_split", np.int32),  # position in `options.splits`, or NOWHERE
    ]
)
# Then, when its copies are known:
_KNOWN = np.dtype(
    [
        ("number", np.int64),
        ("copies", np.int64),  # number of the first source with the same bytes, mostly its own
        ("cluster", np.int64),  # number of the first one that looks alike, or NOWHERE
        ("unit", np.uint64),  # equal for sources that must share a split
        *((name, SOURCE[name]) for name in ("record_id", "stored_bytes", "perceptual_hash")),
        *((name, SOURCE[name]) for name in ("label", "stratum", "forced_split")),
        ("first_forced_split", np.int32),  # of the first source with the same bytes
        ("split", np.int32),
        ("key", np.uint64),  # of the order
    ]
)
# And in the end:
PLACE = np.dtype(
    [
        ("number", np.int64),
        ("copies", np.int64),  # number of the first source with the same bytes (itself, if none is)
        # For a source that is quarantined because one of the same bytes has another label, the
        # number of the first such one, or NOWHERE.
        ("conflicts", np.int64),
        ("shard", np.int64),  # counted over all splits, or NOWHERE
        ("position", np.int64),  # within the shard, or NOWHERE
    ]
)
# Sources of a set of different bytes that look alike.
ALIKE = np.dtype([("number", np.int64), ("cluster", np.int64), ("split", np.int64)])
_LOOK = np.dtype([("look", np.uint64)])


@dataclasses.dataclass(frozen=True)
class Sources:
    """What the plan knows about all sources.

    Attributes:
      count: how many there are, with those that are not usable.
      usable: those that are, of type SOURCE, in ranges of `content`.
      labels: what each code in `label` stands for.
      strata: how many codes there are in `stratum`.
    """

    count: int
    usable: Ranges
    labels: list[str]
    strata: int


class EmptySplit(UserError):
    """A split would have no image.

    Attributes:
      copied: the splits all of whose images are copies of others.
    """

    def __init__(self, message: str, copied: Sequence[str] = ()):
        """Takes what is wrong, and those splits."""
        super().__init__(message)
        self.copied = tuple(copied)


@dataclasses.dataclass
class Counts:
    """What the plan counts on its way.

    Attributes:
      usable: sources that are usable, without those in conflict.
      copied: sources with the bytes of an earlier one.
      excluded: how many of these are left out.
      conflicts: sources in quarantine because others of the same bytes have other labels.
      first_conflict: the number of the first of these.
      differing: sources with another label than the first one with the same bytes.
      given: codes of the splits that paths of usable sources name, and NOWHERE.
      records: int64 [splits].
      stored_bytes: int64 [splits], of these.
      classes: int64 [splits, labels], records of each class.
      alike: sets of sources that look alike.
      straddling: units with records in more than one split, which only paths can cause that name
        different splits for what belongs together.
    """

    records: np.ndarray
    stored_bytes: np.ndarray
    classes: np.ndarray
    usable: int = 0
    copied: int = 0
    excluded: int = 0
    conflicts: int = 0
    first_conflict: int = np.iinfo(np.int64).max
    differing: int = 0
    given: set[int] = dataclasses.field(default_factory=set)
    alike: int = 0
    straddling: int = 0


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where the sources go.

    Attributes:
      places: see `read_places`.
      alike: of type ALIKE, in ranges of `cluster`.
      split_shards: each split's number of shards, in the order of `options.splits`.
      shard_ends: int64 [shards], how many records the shards up to each one have together.
      counts: of all sources.
    """

    places: Ranges
    alike: Ranges
    split_shards: tuple[int, ...]
    shard_ends: np.ndarray
    counts: Counts


def read_places(places: Ranges, first: int, end: int) -> np.ndarray:
    """The places of the sources from one number to another, also of those not usable.

    Args:
      places: of usable ones, of type PLACE, in ranges of their numbers.
      first: the first number.
      end: the number after the last one.

    Returns:
      PLACE [end - first].
    """
    placed = _place_nowhere(np.arange(first, end), np.arange(first, end))
    for rows in places.between(first, end):
        placed[rows["number"] - first] = rows
    return placed


def place_sources(
    sources: Sources, places: Ranges, options: IngestOptions, folder: str
) -> Placement:
    """Places every source; the same sources and options always give the same places.

    Args:
      sources: which are used up.
      places: gets their places, see `read_places`; after an error, those of what is in conflict.
      options: of ingest.
      folder: for files, on this machine's disk.

    Raises:
      UserError: with all that is wrong: splits that would be empty (alone: `EmptySplit`),
        duplicates or conflicting labels that are not allowed.
    """
    spread, splits = functools.partial(Ranges, folder, rows=sources.count), len(options.splits)
    classes = np.zeros((splits, len(sources.labels)), np.int64)
    counts = Counts(np.zeros(splits, np.int64), np.zeros(splits, np.int64), classes)
    alike, known, units = spread(ALIKE), spread(_KNOWN), Links()
    # Exact copies first: everything else is decided for the first of equal files.
    for rows in sources.usable.drain():
        settled, nowhere = _settle_copies(rows, units, counts, options)
        known.add_by_hash(settled, settled["unit"])
        places.add_by_number(nowhere, nowhere["number"])
    problems: list[UserError] = []
    if options.duplicates == "error" and counts.copied:
        told = f"{counts.copied} files repeat the bytes of another one, and ingest.duplicates=error"
        problems.append(UserError(f"{told}; remove them, or set ingest.duplicates=keep_first."))
    if counts.conflicts and options.conflicting_labels == "error":
        told = f"{counts.conflicts} files have the bytes of a file with "
        told += f"{options.label_kind.another}, and ingest.conflicting_labels=error; remove those "
        told += "that are wrong, or set ingest.conflicting_labels=quarantine, which lists them."
        problems.append(UserError(told))
    # What looks alike or shares a group must share a split, or evaluation would see training data.
    if options.near_duplicates is not None:
        known = _find_clusters(known, units, counts, options, spread)
    if units:
        joined = spread(_KNOWN)
        for rows in known.drain():
            rows["unit"] = units.find(rows["unit"])
            joined.add_by_hash(rows, rows["unit"])
        known = joined
    strata = Strata(sources.strata)
    for rows in known if options.stratify else ():
        strata.count(*_find_free(rows)[:3])
    ordered = spread(_KNOWN)
    for rows in known.drain():
        rows["split"] = _choose_splits(rows, strata, options)
        rows["key"] = order_keys(rows["record_id"], options.seed)
        np.add.at(counts.records, rows["split"], 1)
        np.add.at(counts.stored_bytes, rows["split"], rows["stored_bytes"])
        np.add.at(counts.classes, (rows["split"], rows["label"]), 1)
        _, first, unit = np.unique(rows["unit"], return_index=True, return_inverse=True)
        is_apart = rows["split"] != rows["split"][first][unit]
        counts.straddling += len(np.unique(unit[is_apart]))
        ordered.add_by_hash(rows, rows["key"])
    # Records in the order of their keys, cut into shards of equal counts.
    if empty := [name for name, n in zip(options.splits, counts.records, strict=True) if not n]:
        problems.append(_explain_empty(empty, counts, options))
    raise_together(problems)
    sizes = zip(counts.stored_bytes.tolist(), counts.records.tolist(), strict=True)
    split_shards = [count_shards(*size, options.shard_bytes, options.shards) for size in sizes]
    edges = [shard_edges(*each) for each in zip(counts.records, split_shards, strict=True)]
    done, first_shards = np.zeros(splits, np.int64), np.cumsum([0, *split_shards])
    for rows in ordered.drain():
        ids, keys = rows["record_id"], rows["key"]
        rows = rows[np.lexsort((ids[:, 1], ids[:, 0], keys, rows["split"]))]
        ends = np.searchsorted(rows["split"], np.arange(splits + 1))
        for code, (start, end) in enumerate(itertools.pairwise(ends.tolist())):
            rank = done[code] + np.arange(end - start)
            local = np.searchsorted(edges[code], rank, side="right") - 1
            place = {"shard": first_shards[code] + local, "position": rank - edges[code][local]}
            own = select(rows[start:end], PLACE, conflicts=NOWHERE, **place)
            places.add_by_number(own, own["number"])
            done[code] += end - start
        looks = select(rows[rows["cluster"] != NOWHERE], ALIKE)
        alike.add_by_number(looks, looks["cluster"])
    ends = np.cumsum(np.concatenate([np.diff(each) for each in edges]))
    return Placement(places, alike, tuple(split_shards), ends, counts)


def _settle_copies(
    rows: np.ndarray, units: Links, counts: Counts, options: IngestOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Decides what copies and conflicts decide, for a range of contents.

    Equal bytes with different labels: one is wrong, and nobody knows which, so none is written.

    Returns:
      The sources that go on, of type _KNOWN; and the places of those that are not written.
    """
    number, label = rows["number"], rows["label_hash"]
    first = first_copies(rows["content"])
    conflicts = np.full(len(rows), NOWHERE)
    if options.conflicting_labels != "keep":
        conflicts = find_conflicts(first, label)
    is_lost, is_copy = conflicts != NOWHERE, first != np.arange(len(rows))
    is_excluded = is_copy & ~is_lost & (options.duplicates == "keep_first")
    counts.usable += int((~is_lost).sum())
    counts.copied += int(is_copy.sum())
    counts.excluded += int(is_excluded.sum())
    counts.conflicts += int(is_lost.sum())
    counts.first_conflict = min([counts.first_conflict, *number[is_lost][:1].tolist()])
    counts.differing += int((label != label[first]).sum())
    counts.given.update(np.unique(rows["forced_split"][~is_lost]).tolist())
    # Excluded copies still join units: they may be of another group, or look like others.
    units.add(rows["group"][~is_lost], rows["group"][first][~is_lost])
    further = {"unit": rows["group"], "first_forced_split": rows["forced_split"][first]}
    later = {"cluster": NOWHERE, "split": NOWHERE, "key": 0}
    known = select(rows, _KNOWN, copies=number[first], **further, **later)
    goes_on = ~is_lost & (~is_excluded | (options.near_duplicates is not None))
    nowhere = _place_nowhere(number, np.where(is_lost, number, number[first]))
    nowhere["conflicts"][is_lost] = number[conflicts[is_lost]]
    return known[goes_on], nowhere[is_lost | is_excluded]


def _place_nowhere(numbers: np.ndarray, copies: np.ndarray) -> np.ndarray:
    places = np.full(len(numbers), NOWHERE, PLACE)
    places["number"], places["copies"] = numbers, copies
    return places


def _find_clusters(
    known: Ranges,
    units: Links,
    counts: Counts,
    options: IngestOptions,
    spread: Callable[[np.dtype], Ranges],
) -> Ranges:
    """Joins the units of what looks alike, directly or through others, and names the sets of it.

    Returns:
      The sources, of type _KNOWN, without copies that are left out.
    """
    looks, links, most_bits = spread(_LOOK), Links(), options.near_duplicates or 0
    for rows in known:
        own = np.unique(rows["perceptual_hash"])
        looks.add_by_hash(own.view(_LOOK), mix64(own))
    for table in bit_tables(most_bits):
        agreeing = spread(_LOOK)
        for some in looks:
            own = np.unique(some["look"])
            agreeing.add_by_hash(own.view(_LOOK), mix64(own & table))
        for some in agreeing.drain():
            links.add_near(some["look"], table, most_bits)
    alike, clustered = spread(_KNOWN), spread(_KNOWN)
    for rows in known.drain():
        rows["perceptual_hash"] = links.find(rows["perceptual_hash"])
        alike.add_by_hash(rows, mix64(rows["perceptual_hash"]))
    for rows in alike.drain():
        look = rows["perceptual_hash"]
        _, first, where = np.unique(look, return_index=True, return_inverse=True)
        units.add(rows["unit"], rows["unit"][first][where])
        is_first = rows["copies"] == rows["number"]
        several = np.bincount(where[is_first], minlength=len(first)) > 1
        counts.alike += int(several.sum())
        is_alike = is_first & several[where]
        rows["cluster"] = np.where(is_alike, rows["number"][first][where], NOWHERE)
        rows = rows[is_first | (options.duplicates != "keep_first")]
        clustered.add_by_hash(rows, rows["unit"])
    return clustered


def _find_free(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The units of a range whose split no path names.

    Returns:
      Hash, stratum and number of records of each; and the position of each record's unit among
      them, or NOWHERE.
    """
    free = follow_paths(rows["first_forced_split"], rows["unit"]) == NOWHERE
    hashes, first, where, records = np.unique(
        rows["unit"][free], return_index=True, return_inverse=True, return_counts=True
    )
    unit = np.full(len(rows), NOWHERE)
    unit[free] = where
    return hashes, rows["stratum"][free][first], records, unit


def _choose_splits(rows: np.ndarray, strata: Strata, options: IngestOptions) -> np.ndarray:
    """Chooses the split of every record of a range of units.

    All copies follow the first one, unless they are kept as given and their own paths name a split.
    Where its path names a split, that is its split. Otherwise paths of its unit decide, or else the
    unit's hash. To stratify, a unit counts as of the stratum of its first record, and units whose
    paths name a split are left out.

    Returns:
      int64 [n], positions in `options.splits`.
    """
    splits = follow_paths(rows["first_forced_split"], rows["unit"])
    if not options.stratify:
        splits = np.where(splits == NOWHERE, assign_splits(rows["unit"], options.splits), splits)
    else:
        hashes, of, records, unit = _find_free(rows)
        chosen = np.append(strata.assign(hashes, of, records, options.splits), NOWHERE)[unit]
        splits = np.where(unit == NOWHERE, splits, chosen)
    if options.duplicates == "keep_as_given":
        own = rows["forced_split"]
        splits = np.where(own == NOWHERE, splits, own)
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


def _explain_empty(empty: Sequence[str], counts: Counts, options: IngestOptions) -> EmptySplit:
    good, repeated, lost = counts.usable, counts.excluded, counts.conflicts
    copies = f" ({repeated} of them copies of others, of which the first is kept)"
    others = (
        f" ({lost} more have the bytes of a file with {options.label_kind.another}: remove "
        "those that are wrong, or set ingest.conflicting_labels=keep)"
    )
    keep = " Copies stay in the splits that are named with ingest.duplicates=keep_as_given."
    named = counts.given - {*np.flatnonzero(counts.records).tolist()}
    one = len(empty) == 1
    named_splits = f"split {empty[0]!r}" if one else f"splits {', '.join(map(repr, empty))}"
    it, of_this = ("it", "this one") if one else ("them", "these")
    what = f"shares {options.splits}; add images, give {it} a larger share in ingest.splits, or"
    what += f" remove {it} there"
    if good and NOWHERE not in counts.given:
        what = f"all given with another split; add images of {of_this}"
        if options.split_pattern is None:
            what += ", or split all of them again with ingest.columns={split: null}"
        elif options.label_pattern is not None and options.masks is None:
            # Who says where the classes are says, without another option, that there are no splits.
            pattern = f'ingest.label_pattern="{options.label_pattern}"'
            what += f", or split all of them again with --set '{pattern}'"
    return EmptySplit(
        f"The {named_splits} would be empty: {good} usable images"
        f"{copies if repeated else ''}{others if lost else ''}, {what}.{keep if repeated else ''}",
        [name for code, name in enumerate(options.splits) if repeated and code in named],
    )
