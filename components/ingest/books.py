"""The books of an ingest: every file found is written, a duplicate, or quarantined.

Three files in the working folder: `books.json` (counts), `quarantine.jsonl` and
`duplicates.jsonl` (a line for each file, in the order of the listing).
"""

import collections
import json
import os
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from components import files
from components.ingest.options import IngestOptions
from components.ingest.plan import NOWHERE, Placement, Sources


def write_books(
    tables: Iterable[pa.Table],
    sources: Sources,
    placement: Placement,
    labels: list[str],
    work_dir: str,
    options: IngestOptions,
) -> None:
    """Writes the three files.

    Args:
      tables: the rows of all sources, in their order.
      sources: what the plan knew of them.
      placement: what it decided.
      labels: the label that each code in `sources.label` stands for.
      work_dir: the working folder.
      options: of ingest.
    """
    is_duplicate = placement.original != NOWHERE
    needed = set(placement.original[is_duplicate].tolist())
    originals: dict[int, dict] = {}
    quarantined: list[dict] = []
    duplicates: list[dict] = []
    for number, row in _rows_of_note(tables, ~sources.is_good | is_duplicate, needed):
        if number in needed:
            originals[number] = row
        if not sources.is_good[number]:
            quarantined.append(_quarantine_line(row))
        elif is_duplicate[number]:
            duplicates.append({"row": row, "original": int(placement.original[number])})
    lines = [_duplicate_line(each["row"], originals[each["original"]]) for each in duplicates]
    _write_lines(files.join(work_dir, "quarantine.jsonl"), quarantined)
    _write_lines(files.join(work_dir, "duplicates.jsonl"), lines)
    books = {
        "found": len(sources.is_good),
        "written": int((placement.shard != NOWHERE).sum()),
        "duplicates": len(lines),
        "quarantined": len(quarantined),
        "quarantine_reasons": _count(line["reason"] for line in quarantined),
        "conflicting_labels": count_conflicts(sources, placement),
        "classes": _count_classes(sources, placement, labels, options),
    }
    with files.write_atomically(files.join(work_dir, "books.json")) as file:
        file.write(json.dumps(books).encode())


def count_conflicts(sources: Sources, placement: Placement) -> int:
    """How many files repeat the bytes of another one, but under another label."""
    return int((sources.is_good & (sources.label != sources.label[placement.copies])).sum())


def _rows_of_note(
    tables: Iterable[pa.Table], is_noted: np.ndarray, needed: set[int]
) -> Iterator[tuple[int, dict]]:
    """The rows that the books name, with their numbers; the many others are never looked at."""
    is_noted = is_noted.copy()
    is_noted[list(needed)] = True
    first = 0
    for table in tables:
        for row in np.flatnonzero(is_noted[first : first + len(table)]):
            yield first + int(row), table.slice(row, 1).to_pylist()[0]
        first += len(table)


def _quarantine_line(row: dict) -> dict:
    return {
        "path": os.fsdecode(row["path"]),
        "reason": row["reason"],
        "message": row["message"],
        "bytes": row["source_bytes"],
        "sha256": row["sha256"].hex() if row["sha256"] else None,
    }


def _duplicate_line(row: dict, original: dict) -> dict:
    return {
        "path": os.fsdecode(row["path"]),
        "original": os.fsdecode(original["path"]),
        "sha256": row["sha256"].hex(),
        "label": row["label"],
        "original_label": original["label"],
    }


def _write_lines(path: str, lines: list[dict]) -> None:
    """JSON lines in ASCII: names that are not UTF-8 are kept exactly, as escaped surrogates."""
    with files.write_atomically(path) as file:
        for line in lines:
            file.write(json.dumps(line).encode() + b"\n")


def _count(names: Iterable[str]) -> dict[str, int]:
    """Counts, the most frequent first, then by name."""
    counts = collections.Counter(names)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _count_classes(
    sources: Sources, placement: Placement, labels: list[str], options: IngestOptions
) -> dict[str, dict[str, int]]:
    """Records of each class, by split."""
    counts = {}
    edges = np.cumsum([0, *placement.split_shards])
    for split, first, last in zip(options.splits, edges[:-1], edges[1:], strict=True):
        members = (placement.shard >= first) & (placement.shard < last)
        codes, records = np.unique(sources.label[members], return_counts=True)
        named = ((labels[code], int(n)) for code, n in zip(codes, records, strict=True))
        counts[split] = dict(sorted(named))
    return counts
