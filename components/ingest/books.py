"""The books of an ingest: every file found is written, a duplicate, quarantined, or skipped.

They are left in a folder of the working folder that is named as the plan: the counts as
`books.json`, and the lists, each in the order of the listing. Copies that are written nevertheless
are listed, but not counted as duplicates.
"""

import collections
import functools
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.dataset.lists import (
    CONFLICTING_LABEL,
    Duplicate,
    Line,
    LookAlikes,
    Quarantined,
    Skipped,
    write_list,
)
from image_pipeline.components.dataset.manifest import Books
from image_pipeline.components.ingest.plan import NOWHERE, Placement, Sources
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import call_together

BOOKS = "books.json"
Lists = dict[type[Line], list[Any]]  # each list's lines, by their type
NOTED_COLUMNS = ["path", "sha256", "reason", "message", "source_bytes", "label"]


def write_books(
    tables: Iterable[pa.Table],
    sources: Sources,
    placement: Placement,
    labels: list[str],
    books_dir: str,
    options: IngestOptions,
) -> None:
    """Writes the counts and the lists.

    Args:
      tables: the rows of all sources, in their order.
      sources: the columns that the plan used.
      placement: the plan's decisions.
      labels: the label that each code in `sources.label` stands for.
      books_dir: see `WorkFolder.books_dir`.
    """
    lists = _list_files(tables, sources, placement, options)
    books = _count_files(lists, sources, placement, labels, options)
    content = json.dumps(books.stored_form()).encode() + b"\n"
    call_together(
        *(functools.partial(write_list, books_dir, *entry) for entry in lists.items()),
        lambda: files.write_file(files.join(books_dir, BOOKS), content),
    )


def _list_files(
    tables: Iterable[pa.Table], sources: Sources, placement: Placement, options: IngestOptions
) -> Lists:
    """The lists that the data set will have."""
    is_usable = sources.is_good & (placement.conflicts == NOWHERE)
    copies = np.flatnonzero(is_usable & _repeats(placement.copies))
    alike = find_alike(is_usable, placement)
    is_noted = ~is_usable
    is_noted[np.concatenate([copies, placement.copies[copies], *alike])] = True
    rows = dict(_rows_of_note(tables, is_noted))
    bad = np.flatnonzero(~is_usable & ~sources.is_skipped).tolist()
    lists: Lists = {
        Quarantined: [_quarantine_line(number, rows, placement) for number in bad],
        Duplicate: [_duplicate_line(number, rows, placement) for number in copies.tolist()],
    }
    if sources.is_skipped.any():
        skipped = np.flatnonzero(sources.is_skipped).tolist()
        lists[Skipped] = [_skipped_line(rows[number]) for number in skipped]
    if options.near_duplicates is not None:
        splits = np.array(list(options.splits))[split_of(placement)]
        lists[LookAlikes] = [_look_alikes_line(numbers, rows, splits) for numbers in alike]
    return lists


def _count_files(
    lists: Lists,
    sources: Sources,
    placement: Placement,
    labels: list[str],
    options: IngestOptions,
) -> Books:
    quarantined, skipped = lists[Quarantined], lists.get(Skipped, [])
    return Books(
        found=len(sources.is_good),
        written=int((placement.shard != NOWHERE).sum()),
        duplicates=int((placement.original != NOWHERE).sum()),
        quarantined=len(quarantined),
        quarantine_reasons=_count(line.reason for line in quarantined),
        skipped=len(skipped),
        skipped_kinds=_count(line.kind for line in skipped),
        skipped_examples={line.kind: line.path for line in reversed(skipped)},
        conflicting_labels=count_conflicts(sources, placement),
        straddling=count_straddling(placement),
        classes=_count_classes(sources, placement, labels, options),
        near_duplicates=len(lists[LookAlikes]) if LookAlikes in lists else None,
    )


def count_conflicts(sources: Sources, placement: Placement) -> int:
    """How many files have the same bytes as another one, but another label or mask."""
    return int((sources.is_good & (sources.answer != sources.answer[placement.copies])).sum())


def count_straddling(placement: Placement) -> int:
    """How many units (see `plan.join_units`) have records in more than one split.

    Only paths that name different splits for what belongs together can cause it.
    """
    is_written = placement.shard != NOWHERE
    splits = split_of(placement)[is_written]
    named, unit = np.unique(placement.units[is_written], return_inverse=True)
    lowest = np.full(len(named), len(placement.split_shards))
    highest = np.full(len(named), NOWHERE)
    np.minimum.at(lowest, unit, splits)
    np.maximum.at(highest, unit, splits)
    return int((lowest != highest).sum())


def split_of(placement: Placement) -> np.ndarray:
    """The split of each source: int64 [n], its position in the options, or NOWHERE."""
    splits = np.searchsorted(np.cumsum(placement.split_shards), placement.shard, side="right")
    return np.where(placement.shard == NOWHERE, NOWHERE, splits)


def find_alike(is_usable: np.ndarray, placement: Placement) -> list[np.ndarray]:
    """Sets of two or more sources of different bytes that look alike, in the listing's order."""
    members = np.flatnonzero(is_usable & ~_repeats(placement.copies))
    members = members[np.argsort(placement.clusters[members], kind="stable")]
    _, starts, sizes = np.unique(placement.clusters[members], return_index=True, return_counts=True)
    several = sizes > 1
    return [
        members[start : start + size]
        for start, size in zip(starts[several], sizes[several], strict=True)
    ]


def _repeats(copies: np.ndarray) -> np.ndarray:
    """Tells which sources repeat the bytes of an earlier one: bool [n]."""
    return copies != np.arange(len(copies))


def _rows_of_note(tables: Iterable[pa.Table], is_noted: np.ndarray) -> Iterator[tuple[int, dict]]:
    """The rows that the books name, with their numbers; the many others are skipped."""
    first = 0
    for table in tables:
        noted = np.flatnonzero(is_noted[first : first + len(table)])
        rows = table.select(NOTED_COLUMNS).take(pa.array(noted)).to_pylist()
        yield from zip((noted + first).tolist(), rows, strict=True)
        first += len(table)


def _quarantine_line(number: int, rows: dict[int, dict], placement: Placement) -> Quarantined:
    row, conflict = rows[number], int(placement.conflicts[number])
    reason, message = row["reason"], row["message"]
    if conflict != NOWHERE:
        other = rows[conflict]
        reason, path = CONFLICTING_LABEL, os.fsdecode(other["path"])
        message = (
            f"of class {row['label']!r}, but has the bytes of {path!r} of class {other['label']!r}"
            if row["label"] != other["label"]
            else f"has the bytes of {path!r}, but other tags, another value or another mask"
        )
        message += "; remove the one that is wrong"
    content = row["sha256"].hex() if row["sha256"] else None
    return Quarantined(os.fsdecode(row["path"]), reason, message, row["source_bytes"], content)


def _skipped_line(row: dict) -> Skipped:
    return Skipped(os.fsdecode(row["path"]), row["reason"], row["message"], row["source_bytes"])


def _duplicate_line(number: int, rows: dict[int, dict], placement: Placement) -> Duplicate:
    row, original = rows[number], rows[int(placement.copies[number])]
    return Duplicate(
        path=os.fsdecode(row["path"]),
        original=os.fsdecode(original["path"]),
        sha256=row["sha256"].hex(),
        label=row["label"],
        original_label=original["label"],
        written=bool(placement.shard[number] != NOWHERE),
    )


def _look_alikes_line(numbers: np.ndarray, rows: dict[int, dict], splits: np.ndarray) -> LookAlikes:
    members = [rows[number] for number in numbers.tolist()]
    return LookAlikes(
        size=len(members),
        paths=[os.fsdecode(row["path"]) for row in members],
        labels=[row["label"] for row in members],
        splits=splits[numbers].tolist(),
    )


def _count(names: Iterable[str]) -> dict[str, int]:
    """Counts, the most frequent first, then by name."""
    counts = collections.Counter(names)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _count_classes(
    sources: Sources, placement: Placement, labels: list[str], options: IngestOptions
) -> dict[str, dict[str, int]]:
    """Records of each class, by split."""
    counts = {}
    splits = split_of(placement)
    for code, split in enumerate(options.splits):
        codes, records = np.unique(sources.label[splits == code], return_counts=True)
        named = ((labels[code], int(n)) for code, n in zip(codes, records, strict=True))
        counts[split] = dict(sorted(named))
    return counts
