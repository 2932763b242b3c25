"""What a data set has beside its shards: its books, from the plan; index and manifest, at the end.

The books say what became of every file found: it is written, a duplicate, quarantined, or skipped.
The plan leaves them in the working folder: the counts as `books.json`, and the lists, each in the
order of the listing. Copies that are written nevertheless are listed, but not counted as
duplicates. The manifest is written last, so that no incomplete output passes for a complete one.
"""

import collections
import contextlib
import functools
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import HashedWriter, ListedFile, copy_file
from image_pipeline.components.dataset.index_file import index_schema
from image_pipeline.components.dataset.index_rows import list_classes, make_rows, seal_shard
from image_pipeline.components.dataset.lists import (
    CONFLICTING_LABEL,
    Duplicate,
    Line,
    LookAlikes,
    Quarantined,
    Skipped,
    kept_copies,
    read_list,
    write_list,
)
from image_pipeline.components.dataset.manifest import (
    FORMAT_VERSION,
    Books,
    ListedShard,
    ListedSplit,
    Manifest,
    parse_manifest,
)
from image_pipeline.components.dataset.paths import (
    DUPLICATES,
    INDEX,
    MANIFEST,
    NEAR_DUPLICATES,
    QUARANTINE,
    RETRY,
    ROWS,
    SKIPPED,
    in_split,
    name_copy,
)
from image_pipeline.components.ingest.plan import NOWHERE, Placement, Sources
from image_pipeline.components.ingest.shards import ShardTask, WrittenShard, read_index
from image_pipeline.components.ingest.work_folder import RETRY_MARK, WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import call_together, map_in_order

_BOOKS = "books.json"
_ALWAYS = (INDEX, ROWS, QUARANTINE, DUPLICATES)
_NOTED_COLUMNS = ["path", "sha256", "reason", "message", "source_bytes", "label"]


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
      options: of ingest.
    """
    is_usable = sources.is_good & (placement.conflicts == NOWHERE)
    copies = np.flatnonzero(is_usable & _repeats(placement.copies))
    alike = find_alike(is_usable, placement)
    bad = np.flatnonzero(~is_usable & ~sources.is_skipped).tolist()
    skipped = np.flatnonzero(sources.is_skipped).tolist()
    # Only the rows that a list names become Python's objects.
    is_noted = ~is_usable
    is_noted[np.concatenate([copies, placement.copies[copies], *alike])] = True
    rows: dict[int, dict] = {}
    first = 0
    for table in tables:
        rows |= _take_rows(table, is_noted[first : first + len(table)], first)
        first += len(table)
    lists: dict[type[Line], list[Any]] = {
        Quarantined: [_quarantine_line(number, rows, placement.conflicts) for number in bad],
        Duplicate: [_duplicate_line(number, rows, placement) for number in copies.tolist()],
    }
    if skipped:
        lists[Skipped] = [
            Skipped(os.fsdecode(row["path"]), row["reason"], row["message"], row["source_bytes"])
            for row in map(rows.__getitem__, skipped)
        ]
    if options.near_duplicates is not None:
        splits = np.array(list(options.splits))[split_of(placement)]
        lists[LookAlikes] = [_look_alikes_line(numbers, rows, splits) for numbers in alike]
    left_out = lists.get(Skipped, [])
    # Files with the bytes of another one, but another label or mask.
    differs = sources.is_good & (sources.label_hash != sources.label_hash[placement.copies])
    books = Books(
        found=len(sources.is_good),
        written=int((placement.shard != NOWHERE).sum()),
        duplicates=int((placement.original != NOWHERE).sum()),
        quarantined=len(bad),
        quarantine_reasons=_count(line.reason for line in lists[Quarantined]),
        skipped=len(skipped),
        skipped_kinds=_count(line.kind for line in left_out),
        skipped_examples={line.kind: line.path for line in reversed(left_out)},
        conflicting_labels=int(differs.sum()),
        straddling=count_straddling(placement),
        classes=_count_classes(sources, placement, labels, options),
        near_duplicates=len(lists[LookAlikes]) if LookAlikes in lists else None,
    )
    content = json.dumps(books.stored_form()).encode() + b"\n"
    call_together(
        *(functools.partial(write_list, books_dir, *entry) for entry in lists.items()),
        lambda: files.write_file(files.join(books_dir, _BOOKS), content),
    )


def write_refused(tables: Iterable[pa.Table], conflicts: np.ndarray, work: WorkFolder) -> None:
    """Lists, in the working folder, what a refused ingest cannot use.

    Args:
      tables: the rows of all sources, in their order.
      conflicts: as `Placement` has them.
      work: the working folder.
    """
    rows: dict[int, dict] = {}
    first = 0
    for table in tables:
        is_bad = pc.and_(pc.is_valid(table["reason"]), pc.is_null(table["is_skipped"])).to_numpy()
        in_conflict = conflicts[first : first + len(table)] != NOWHERE
        rows |= _take_rows(table, is_bad | in_conflict, first)
        first += len(table)
    write_list(
        work.path, Quarantined, [_quarantine_line(number, rows, conflicts) for number in rows]
    )


def _take_rows(table: pa.Table, is_noted: np.ndarray, first: int) -> dict[int, dict]:
    """Those rows of a table that a list names, by their numbers; the table's first is `first`."""
    noted = np.flatnonzero(is_noted)
    taken = table.select(_NOTED_COLUMNS).take(pa.array(noted)).to_pylist()
    return dict(zip((noted + first).tolist(), taken, strict=True))


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


def _quarantine_line(number: int, rows: dict[int, dict], conflicts: np.ndarray) -> Quarantined:
    row, conflict = rows[number], int(conflicts[number])
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


def start_output(
    tasks: Sequence[ShardTask], work: WorkFolder, output_dir: str
) -> Sequence[ShardTask]:
    """Makes sure, before the first shard, that no incomplete output passes for a complete one.

    Deletes the manifest of an earlier run, what this run may not overwrite, and what was not
    finished when an earlier one was killed. A retry that was interrupted cannot go on any more.

    Raises:
      UserError: if another run has begun.
    """
    work.check()
    old = [files.join(output_dir, name) for name in (MANIFEST, NEAR_DUPLICATES, SKIPPED)]
    files.delete_unfinished(*old, *(files.join(output_dir, name) for name in _ALWAYS))
    if (marker := files.join(output_dir, RETRY, RETRY_MARK)) != work.join(RETRY_MARK):
        old.append(marker)
    _, found = call_together(
        lambda: files.delete(*old), lambda: files.list_files(output_dir, in_split("*"))
    )
    kept = {files.join(output_dir, task.path) for task in tasks}
    files.delete(*(path for path in found if path not in kept))
    return tasks


def write_manifest(
    written: Sequence[WrittenShard], work: WorkFolder, output_dir: str, options: IngestOptions
) -> Manifest:
    """Checks that nothing was lost, then writes the index, the lists and the manifest.

    Args:
      written: every shard, in any order.
      work: the working folder.
      output_dir: where the shards are.

    Returns:
      The manifest as it was written.

    Raises:
      RuntimeError: if a shard or a record was lost on the way.
      UserError: if another run has begun.
    """
    # In = out: all shards of the plan, all of its records, and every file found in one list.
    if not written:
        raise RuntimeError(
            "Stage Plan lost the list of chunks, or Stage Write all of its shards: none arrived."
        )
    shards = sorted(written, key=lambda shard: shard.task.number)
    numbers, total = [shard.task.number for shard in shards], shards[0].task.total
    if numbers != list(range(total)):
        raise RuntimeError(f"Stage Write lost shards: {numbers} of {total} arrived.")
    work.check()
    books_dir = work.books_dir(shards[0].task.plan)
    books = Books(**json.loads(files.read_file(files.join(books_dir, _BOOKS))))
    records = sum(shard.records for shard in shards)
    if records != books.written:
        raise RuntimeError(f"Stage Write lost records: {books.written} in, {records} out.")
    if books.found != books.accounted:
        raise RuntimeError(
            f"The books do not balance: {books.found} found, {books.accounted} accounted for."
        )
    near = [NEAR_DUPLICATES] if books.near_duplicates is not None else []
    names = [QUARANTINE, DUPLICATES, *near, *([SKIPPED] if books.skipped else [])]
    index, _, *lists = call_together(
        lambda: _write_index(shards, list_classes(books), output_dir, options),
        lambda: _copy_quarantined(books_dir, work, output_dir),
        *(functools.partial(_copy, name, books_dir, output_dir) for name in names),
    )
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        books=books,
        splits=_describe_splits(shards, options),
        files={**index, **dict(zip(names, lists, strict=True))},
        options=options.stored_form(),
    )
    content = manifest.to_bytes()
    # Last, so that a folder with a manifest is whole, and only if this run is still the last one.
    work.check()
    call_together(
        lambda: files.write_file(files.join(output_dir, MANIFEST), content),
        lambda: work.finish(content),
    )
    return parse_manifest(content)


def _describe_splits(
    shards: Sequence[WrittenShard], options: IngestOptions
) -> dict[str, ListedSplit]:
    splits = {}
    for split in options.splits:
        own = [shard for shard in shards if shard.task.split == split]
        listed = [
            ListedShard(
                file=shard.task.path,
                records=shard.records,
                bytes=shard.size_bytes,
                sha256=shard.sha256,
            )
            for shard in own
        ]
        counted = [shard.counted for shard in own]
        splits[split] = ListedSplit(
            records=sum(shard.records for shard in listed),
            bytes=sum(shard.bytes for shard in listed),
            shards=listed,
            **options.label_kind.add_up(counted, options.boxes),
        )
    return splits


def _write_index(
    shards: Sequence[WrittenShard], classes: Sequence[str], output_dir: str, options: IngestOptions
) -> dict[str, ListedFile]:
    """Writes both forms of the index shard by shard, so that few shards' rows are held."""
    paths = [shard.index_path for shard in shards]
    schema = index_schema(options.record_columns)
    with contextlib.ExitStack() as stack:
        index, rows = (
            HashedWriter(stack.enter_context(files.write_atomically(files.join(output_dir, name))))
            for name in (INDEX, ROWS)
        )
        with pq.ParquetWriter(pa.PythonFile(index, mode="w"), schema) as writer:
            tables = map_in_order(read_index, paths, files.count_threads(output_dir), ahead=1)
            for shard, table in zip(shards, tables, strict=True):
                writer.write_table(table)
                rows.write(seal_shard(make_rows(table, classes), shard.sha256).tobytes())
    return {INDEX: index.describe(), ROWS: rows.describe()}


def _copy(name: str, source_dir: str, target_dir: str) -> ListedFile:
    return copy_file(files.join(source_dir, name), files.join(target_dir, name))


def _copy_quarantined(books_dir: str, work: WorkFolder, output_dir: str) -> None:
    """Copies the files listed in the books, and deletes those of an earlier run."""
    lines, found = call_together(
        lambda: read_list(books_dir, Quarantined),
        lambda: files.list_files(output_dir, name_copy("*")),
    )
    names = [name_copy(content) for content in kept_copies(lines)]
    copy = functools.partial(_copy, source_dir=work.path, target_dir=output_dir)
    collections.deque(map_in_order(copy, names, files.count_threads(output_dir), ahead=1), maxlen=0)
    files.delete(*set(found) - {files.join(output_dir, name) for name in names})
