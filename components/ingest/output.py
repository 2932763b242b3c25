"""What a data set has beside its shards: its books, from the plan; index and manifest, at the end.

The books say what became of every file found: it is written, a duplicate, quarantined, or skipped.
The plan leaves them in the working folder: the counts as `books.json`, and the lists, each in the
order of the listing. Copies that are written nevertheless are listed, but not counted as
duplicates. The manifest is written last, so that no incomplete output passes for a complete one.
"""

import collections
import contextlib
import functools
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
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
    has_manifest,
    parse_manifest,
)
from image_pipeline.components.dataset.paths import (
    DUPLICATES,
    GONE,
    INDEX,
    MANIFEST,
    NEAR_DUPLICATES,
    NEXT,
    QUARANTINE,
    QUARANTINED,
    ROWS,
    SKIPPED,
    SOURCE_NOTE,
    SOURCES,
    in_split,
    is_split,
    name_copy,
)
from image_pipeline.components.ingest.earlier import finish_sources
from image_pipeline.components.ingest.placed_rows import SourceRows, group_by_rows
from image_pipeline.components.ingest.plan import NOWHERE, Placement, read_places
from image_pipeline.components.ingest.prepared import read_rows
from image_pipeline.components.ingest.ranges import Ranges
from image_pipeline.components.ingest.shards import ShardTask, WrittenShard
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import call_together, map_in_order

_BOOKS = "books.json"
_ALWAYS = (INDEX, ROWS, QUARANTINE, DUPLICATES)
_LINES_AT_ONCE = 20_000  # Of a list, whose rows are Python's objects at a time.
_NOTED_COLUMNS = ["path", "sha256", "reason", "message", "source_bytes", "label"]


def write_books(
    sources: SourceRows,
    placement: Placement,
    labels: list[str],
    books_dir: str,
    options: IngestOptions,
) -> None:
    """Writes the counts and the lists.

    Args:
      sources: the rows of all sources.
      placement: the plan's decisions.
      labels: the label that each code stands for.
      books_dir: see `WorkFolder.books_dir`.
      options: of ingest.
    """
    reasons, kinds = collections.Counter[str](), collections.Counter[str]()
    examples: dict[str, str] = {}
    find_noted = functools.partial(_find_noted, sources, placement.places)

    def quarantined() -> Iterator[Quarantined]:
        for place, noted in find_noted(_is_quarantined):
            line = _quarantine_line(place, noted)
            reasons[line.reason] += 1
            yield line

    def skipped() -> Iterator[Skipped]:
        for place, noted in find_noted(lambda rows, _: rows["is_skipped"].is_valid().to_numpy()):
            row = noted[int(place["number"])]
            path, kind = os.fsdecode(row["path"]), row["reason"]
            kinds[kind] += 1
            examples[kind] = examples.pop(kind, path)  # Its first, in the order of their last.
            yield Skipped(path, kind, row["message"], row["source_bytes"])

    copies = find_noted(lambda _, places: places["copies"] != places["number"])
    lists: dict[type[Line], Iterable[Any]] = {
        Quarantined: quarantined(),
        Duplicate: itertools.starmap(_duplicate_line, copies),
    }
    if any(len(rows) > rows["is_skipped"].null_count for _, rows in sources.tables()):
        lists[Skipped] = skipped()
    if options.near_duplicates is not None:
        lists[LookAlikes] = _find_look_alikes(sources, placement, options)
    call_together(*(functools.partial(write_list, books_dir, *entry) for entry in lists.items()))
    counts = placement.counts
    books = Books(
        found=len(sources),
        written=int(counts.records.sum()),
        duplicates=counts.excluded,
        quarantined=reasons.total(),
        quarantine_reasons=_most_frequent(reasons),
        skipped=kinds.total(),
        skipped_kinds=_most_frequent(kinds),
        skipped_examples=dict(reversed(examples.items())),
        conflicting_labels=counts.differing,
        straddling=counts.straddling,
        classes={
            split: dict(sorted((labels[code], int(of[code])) for code in np.flatnonzero(of)))
            for split, of in zip(options.splits, counts.classes, strict=True)
        },
        near_duplicates=counts.alike if LookAlikes in lists else None,
    )
    content = json.dumps(books.model_dump(exclude_none=True)).encode() + b"\n"
    files.write_file(files.join(books_dir, _BOOKS), content)


def write_refused(sources: SourceRows, places: Ranges, work: WorkFolder) -> None:
    """Lists, in the working folder, what a refused ingest cannot use.

    Args:
      sources: the rows of all sources.
      places: of what is in conflict at least, see `plan.read_places`.
      work: the working folder.
    """
    noted = _find_noted(sources, places, _is_quarantined)
    write_list(work.path, Quarantined, itertools.starmap(_quarantine_line, noted))


def _is_quarantined(rows: pa.Table, places: np.ndarray) -> np.ndarray:
    is_bad = rows["reason"].is_valid().to_numpy() & rows["is_skipped"].is_null().to_numpy()
    return is_bad | (places["conflicts"] != NOWHERE)


def _find_noted(
    sources: SourceRows,
    places: Ranges,
    is_noted: Callable[[pa.Table, np.ndarray], np.ndarray],
) -> Iterator[tuple[np.void, dict[int, dict]]]:
    """The places of sources that a list names, each with the rows of those that its line names."""
    for first, rows in sources.tables():
        own = read_places(places, first, first + len(rows))
        noted = own[is_noted(rows, own)]
        for start in range(0, len(noted), _LINES_AT_ONCE):
            some = noted[start : start + _LINES_AT_ONCE]
            named = np.concatenate([some[name] for name in ("number", "copies", "conflicts")])
            taken = sources.take(named[named != NOWHERE], _NOTED_COLUMNS)
            for place in some:
                yield place, taken


def _find_look_alikes(
    sources: SourceRows, placement: Placement, options: IngestOptions
) -> Iterator[LookAlikes]:
    """Sets of two or more sources of different bytes that look alike, in the listing's order."""
    splits = list(options.splits)
    for alike in placement.alike:
        alike = alike[np.argsort(alike["cluster"], kind="stable")]
        _, starts = np.unique(alike["cluster"], return_index=True)
        ends = np.append(starts[1:], len(alike))[: len(starts)]
        for a, b in group_by_rows(ends, _LINES_AT_ONCE):
            taken = sources.take(alike["number"][starts[a] : ends[b - 1]], _NOTED_COLUMNS)
            for start, end in zip(starts[a:b], ends[a:b], strict=True):
                members = [taken[number] for number in alike["number"][start:end].tolist()]
                yield LookAlikes(
                    size=len(members),
                    paths=[os.fsdecode(row["path"]) for row in members],
                    labels=[row["label"] for row in members],
                    splits=[splits[code] for code in alike["split"][start:end].tolist()],
                )


def _quarantine_line(place: np.void, rows: dict[int, dict]) -> Quarantined:
    row, conflict = rows[int(place["number"])], int(place["conflicts"])
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


def _duplicate_line(place: np.void, rows: dict[int, dict]) -> Duplicate:
    row, original = rows[int(place["number"])], rows[int(place["copies"])]
    return Duplicate(
        path=os.fsdecode(row["path"]),
        original=os.fsdecode(original["path"]),
        sha256=row["sha256"].hex(),
        label=row["label"],
        original_label=original["label"],
        written=bool(place["shard"] != NOWHERE),
    )


def _most_frequent(counts: collections.Counter[str]) -> dict[str, int]:
    """The most frequent first, then by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def start_output(
    tasks: Sequence[ShardTask], work: WorkFolder, output_dir: str
) -> Sequence[ShardTask]:
    """Makes sure, before the first shard, that no incomplete output passes for a complete one.

    Deletes the manifest of an earlier run, what this run may not overwrite, and what was not
    finished when an earlier one was killed.

    Raises:
      UserError: if another run has begun.
    """
    work.check()
    old = [files.join(output_dir, name) for name in (MANIFEST, SOURCES, NEAR_DUPLICATES, SKIPPED)]
    files.delete_unfinished(*old, *(files.join(output_dir, name) for name in _ALWAYS))
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
        *(
            functools.partial(copy_file, files.join(books_dir, name), files.join(output_dir, name))
            for name in names
        ),
    )
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
        splits[split] = ListedSplit(
            records=sum(shard.records for shard in listed),
            bytes=sum(shard.bytes for shard in listed),
            shards=listed,
            **options.label_kind.add_up([shard.counted for shard in own], options.boxes),
        )
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        books=books,
        splits=splits,
        files={**index, **dict(zip(names, lists, strict=True))},
        options=options.stored_form(),
    )
    content = manifest.to_bytes()
    written_manifest = parse_manifest(content)
    checksum = written_manifest.checksum or ""
    finish_sources(files.join(books_dir, SOURCES), checksum, work.read_fingerprint(), output_dir)
    # Last, so that a folder with a manifest is whole, and only if this run is still the last one.
    work.check()
    call_together(
        lambda: files.write_file(files.join(output_dir, MANIFEST), content),
        lambda: work.finish(content),
    )
    return written_manifest


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
            tables = map_in_order(read_rows, paths, files.count_threads(output_dir), ahead=1)
            for shard, table in zip(shards, tables, strict=True):
                writer.write_table(table)
                rows.write(seal_shard(make_rows(table, classes), shard.sha256).tobytes())
    return {INDEX: index.describe(), ROWS: rows.describe()}


def _copy_quarantined(books_dir: str, work: WorkFolder, output_dir: str) -> None:
    """Copies the files listed in the books, and deletes those of an earlier run."""
    lines, found = call_together(
        lambda: read_list(books_dir, Quarantined),
        lambda: files.list_files(output_dir, name_copy("*")),
    )
    names = [name_copy(content) for content in kept_copies(lines)]
    copied = [files.join(output_dir, name) for name in names]
    pairs, threads = (
        zip(map(work.join, names), copied, strict=True),
        files.count_threads(output_dir),
    )
    copies = map_in_order(lambda pair: copy_file(*pair), pairs, threads, ahead=1)
    collections.deque(copies, maxlen=0)
    files.delete(*set(found).difference(copied))


def take_place(output_dir: str) -> None:
    """Puts the data set that was written in `NEXT` in the place of the one before, if there is one.

    On this machine nothing is copied, so a reader finds no data set for a moment only; and whoever
    is stopped in that moment goes on when this is called again: first all that was there leaves,
    which a mark says, then all that is new arrives, the manifest last. The new one is whole once it
    is noted there which images it was made from.
    """
    if not files.is_local(output_dir):
        _copy_into_place(output_dir)
        return
    next_dir, gone_dir = (os.path.join(output_dir, name) for name in (NEXT, GONE))
    mark = os.path.join(gone_dir, "all")
    is_whole = os.path.exists(mark) or os.path.exists(os.path.join(next_dir, SOURCE_NOTE))
    if has_manifest(next_dir) and is_whole:
        os.makedirs(gone_dir, exist_ok=True)
        if not os.path.exists(mark):
            named = (MANIFEST, *_ALWAYS, SOURCES, NEAR_DUPLICATES, SKIPPED, QUARANTINED)
            splits = sorted(name for name in os.listdir(output_dir) if is_split(name))
            for name in (*named, *splits):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(os.path.join(output_dir, name), os.path.join(gone_dir, name))
            files.write_file(mark, b"")
        for name in sorted(os.listdir(next_dir), key=lambda name: name == MANIFEST):
            os.rename(os.path.join(next_dir, name), os.path.join(output_dir, name))
    if os.path.exists(mark):
        files.delete_tree(next_dir)
        files.delete_tree(gone_dir)


def _copy_into_place(output_dir: str) -> None:
    """The same in a store, where nothing can be renamed: what is new is copied, then deleted.

    It stays whole until its manifest has arrived, so whoever is stopped begins again.
    """
    next_dir = files.join(output_dir, NEXT)
    note = files.join(next_dir, SOURCE_NOTE)
    if not files.is_file(note):
        return
    files.delete(files.join(output_dir, MANIFEST))
    names = [name for name, _, _ in files.list_remote_tree(next_dir)]
    new = {files.join(output_dir, name) for name in names}
    lists = (files.join(output_dir, name) for name in (NEAR_DUPLICATES, SKIPPED))
    folders = (files.list_files(output_dir, of) for of in (in_split("*"), name_copy("*")))
    files.delete(*{*lists, *itertools.chain(*folders)} - new)

    def copy(name: str) -> None:
        copy_file(files.join(next_dir, name), files.join(output_dir, name))

    rest = (name for name in names if name != MANIFEST)
    collections.deque(map_in_order(copy, rest, files.count_threads(output_dir)), maxlen=0)
    copy(MANIFEST)
    files.delete(note)  # What is left of the folder is not whole, if this is stopped here.
    files.delete_tree(next_dir)
