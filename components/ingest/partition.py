"""Brings the rows of all chunks into the order of the shards, in bounded memory.

The rows are read chunk by chunk: first the few columns that the plan needs, then whole, to be
written in the shards' order into one file. A shard's task knows where in that file its rows are.
"""

import array
import collections
import contextlib
import hashlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components import files
from image_pipeline.components.dataset.record import order_names
from image_pipeline.components.errors import UserError, raise_together
from image_pipeline.components.ingest.output import write_books, write_refused
from image_pipeline.components.ingest.plan import (
    NOWHERE,
    Placement,
    Sources,
    empty_sources,
    find_conflicts,
    first_copies,
    place_sources,
)
from image_pipeline.components.ingest.prepared import read_chunk_rows, read_rows, write_placed_rows
from image_pipeline.components.ingest.shards import ShardTask
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.labels.kinds import CLASSES
from image_pipeline.components.labels.masks import check_ids
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import call_together, map_in_order


def plan_shards(
    prepared: Sequence[PreparedChunk], work: WorkFolder, options: IngestOptions
) -> list[ShardTask]:
    """Plans all shards and writes the rows that their tasks will read, and the books.

    Args:
      prepared: every chunk, in any order.
      work: the working folder.
      options: of ingest.

    Returns:
      A task for each shard.

    Raises:
      UserError: if there is nothing to write, or too many files are bad.
      RuntimeError: if the runner lost a chunk.
    """
    work.check()
    # The listing's order decides which of equal files is the first, so no chunk may be missing.
    chunks = sorted(prepared, key=lambda chunk: chunk.number)
    if [chunk.number for chunk in chunks] != list(range(len(chunks))) or not chunks[-1].is_last:
        raise RuntimeError(
            f"Stage Prepare lost chunks: {[chunk.number for chunk in chunks]} arrived; this is "
            "the Beam runner's failure (its local multi_threading mode is known for it)."
        )
    # Named after all that the rows' places depend on, so that another plan's are never read.
    depends_on = [options.model_dump(mode="json"), *(chunk.name for chunk in chunks)]
    plan = hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:16]
    with _local_rows(chunks, work) as paths:
        sources, labels, placement = judge_rows(chunks, work, paths, options)
        # The rows are read twice more, at the same time: those that the lists name, and whole ones,
        # sorted by shard, so that a task reads its own in one piece.
        scratch_dir = work.path if work.is_local else None
        _, row_spans = call_together(
            lambda: write_books(
                map(read_rows, paths), sources, placement, labels, work.books_dir(plan), options
            ),
            lambda: write_placed_rows(paths, placement, work.placed_path(plan), scratch_dir),
        )
    # Classes are numbered as given, or sorted.
    classes = options.classes if options.class_ids else None
    if options.class_ids and classes is None:
        written = np.unique(sources.label[placement.shard != NOWHERE])
        classes = tuple(sorted(labels[code] for code in written))
    pairs = [
        (split, shard, shards)
        for split, shards in zip(options.splits, placement.split_shards, strict=True)
        for shard in range(shards)
    ]
    columns = options.record_columns
    return [
        ShardTask(*pair, number, len(pairs), plan, row_spans[number], columns, classes)
        for number, pair in enumerate(pairs)
    ]


def judge_rows(
    chunks: Sequence[PreparedChunk], work: WorkFolder, paths: Sequence[str], options: IngestOptions
) -> tuple[Sources, list[str], Placement]:
    """Places the sources, and stops the run if that cannot be done or too many are lost.

    All that is wrong is said at once, and what is not usable is listed in the working folder.

    Args:
      chunks: in the listing's order.
      work: the working folder.
      paths: the files of their rows, on this machine.
      options: of ingest.

    Returns:
      The sources, what their label codes stand for, and their places.

    Raises:
      UserError: as `plan_shards`.
    """
    problems: list[UserError] = []
    sources: Sources | None = None
    try:
        check_share_of_bad(chunks, work, options)
    except UserError as error:
        problems.append(error)
    try:
        if any(chunk.found - chunk.bad - chunk.skipped for chunk in chunks):
            sources, labels = _read_sources(chunks, paths, options)
            placement = place_sources(sources, options)
            check_conflicts(chunks, placement, map(read_rows, paths), options)
    except UserError as error:
        problems.append(error)
    if problems:
        conflicts = np.full(sum(chunk.found for chunk in chunks), NOWHERE, np.int32)
        if sources is not None and options.conflicting_labels != "keep":
            copies = first_copies(sources.content, sources.is_good)
            conflicts = find_conflicts(copies, sources.label_hash, sources.is_good)
        write_refused(map(read_rows, paths), conflicts, work)
    raise_together(problems)
    assert sources is not None  # Without a usable image there is a problem.
    return sources, labels, placement


def check_share_of_bad(
    chunks: Sequence[PreparedChunk], work: WorkFolder, options: IngestOptions
) -> None:
    """Stops the run if no image is usable or too many are bad, and says why."""
    found, bad = sum(chunk.found for chunk in chunks), sum(chunk.bad for chunk in chunks)
    judged = found - sum(chunk.skipped for chunk in chunks)
    if not found:
        raise UserError("The images folder holds no files; give a folder that holds images.")
    if bad < judged and bad <= options.max_bad_fraction * judged:
        return
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for chunk in chunks:
        if chunk.bad or chunk.skipped:
            rows = read_chunk_rows(chunk, work)
            for row in rows.filter(pc.is_valid(rows["reason"])).to_pylist():
                if bad == judged or not row["is_skipped"]:
                    reasons[row["reason"]].append(f"{os.fsdecode(row['path'])!r}: {row['message']}")
    frequent = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))[:5]
    lines = [f"  {len(paths)} {reason}, for example {paths[0]}" for reason, paths in frequent]
    verdict = (
        f"{bad} of {judged} files are not usable, more than ingest.max_bad_fraction="
        f"{options.max_bad_fraction:g} allows"
        if bad < judged
        else f"None of the {found} files found is a usable image"
    )
    allow = ", or raise ingest.max_bad_fraction" if bad < judged else ""
    raise UserError("\n".join([f"{verdict}:", *lines, f"Repair or remove them{allow}."]))


def check_conflicts(
    chunks: Sequence[PreparedChunk],
    placement: Placement,
    tables: Iterable[pa.Table],
    options: IngestOptions,
) -> None:
    """Stops the run if too many images are lost, with those of several labels."""
    conflicts = np.flatnonzero(placement.conflicts != NOWHERE)
    bad = sum(chunk.bad for chunk in chunks) + len(conflicts)
    judged = sum(chunk.found - chunk.skipped for chunk in chunks)
    if not len(conflicts) or bad <= options.max_bad_fraction * judged:
        return
    paths = itertools.chain.from_iterable(rows["path"].to_pylist() for rows in tables)
    example = os.fsdecode(next(itertools.islice(paths, int(conflicts[0]), None)))
    raise UserError(
        f"{bad} of {judged} files would be lost, more than ingest.max_bad_fraction="
        f"{options.max_bad_fraction:g} allows: {len(conflicts)} have the bytes of a file with "
        f"{options.label_kind.another}, for example {example!r}. Remove those that are wrong, set "
        "ingest.conflicting_labels=keep, or raise ingest.max_bad_fraction."
    )


@contextlib.contextmanager
def _local_rows(chunks: Sequence[PreparedChunk], work: WorkFolder) -> Iterator[list[str]]:
    """Paths on this machine's disk to the rows of chunks; copies, if they are elsewhere."""
    paths = [work.rows_path(name) for chunk in chunks for name in chunk.names]
    if work.is_local:
        yield paths
        return
    with tempfile.TemporaryDirectory() as folder:

        def copy(path: str) -> str:
            target = files.join(folder, path.rpartition("/")[2])
            with open(target, "wb") as file:
                file.writelines(files.read_blocks(path))
            return target

        yield list(map_in_order(copy, paths, files.count_threads(work.path)))


def _read_sources(
    chunks: Sequence[PreparedChunk], paths: Sequence[str], options: IngestOptions
) -> tuple[Sources, list[str]]:
    """Reads the plan's columns of all rows, and the labels that the label codes stand for."""
    split_codes = {split: code for code, split in enumerate(options.splits)}
    label_codes: dict[object, int] = {}
    stratum_codes: dict[object, int] = {}
    mask_ids: set[int] = set()
    names = array.array("q")  # Hashes: 8 bytes an image.
    sources, done = empty_sources(sum(chunk.found for chunk in chunks)), 0
    for path in paths:
        rows = read_rows(path)
        window = slice(done, done + len(rows))
        content = _halves(rows["sha256"])
        sources.is_good[window] = rows["reason"].is_null().to_numpy()
        sources.is_skipped[window] = rows["is_skipped"].is_valid().to_numpy()
        sources.content[window] = content
        sources.record_id[window] = _halves(rows["record_id"])
        sources.group[window] = _hash_groups(rows["group"].to_pylist(), content[:, 0])
        sources.forced_split[window] = _codes(rows["forced_split"], split_codes)
        sources.label[window] = _number(rows["label"].to_pylist(), label_codes)
        sources.label_hash[window] = _hash_labels(rows, sources.label[window], options)
        sources.stratum[window] = sources.label[window]
        if isinstance(options.stratify, str):
            strata = _read_column(rows, options.stratify, options)
            sources.stratum[window] = _number(strata, stratum_codes)
        sources.stored_bytes[window] = rows["payload_length"].to_numpy()
        sources.perceptual_hash[window] = rows["perceptual_hash"].fill_null(0).to_numpy()
        mask_ids.update(rows["mask_ids"].combine_chunks().flatten().unique().to_pylist())
        names.extend(map(hash, _usable_names(rows)))
        done += len(rows)
    _check_names(np.frombuffer(names, np.int64), map(read_rows, paths))
    check_ids(mask_ids, options.masks)
    return sources, [str(label or "") for label in label_codes]


def _check_names(hashes: np.ndarray, tables: Iterable[pa.Table]) -> None:
    """Refuses names that several images have: books, retries and fixes tell images by their names.

    Args:
      hashes: int64 [n], of the names of all usable images; what is not written may have any name.
      tables: all rows, which are read only if hashes repeat.
    """
    ordered = np.sort(hashes)
    repeated = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    seen: set[bytes] = set()
    for name in (name for rows in tables if repeated for name in _usable_names(rows)):
        if hash(name) in repeated and name in seen:
            raise UserError(
                f"Two images are called {os.fsdecode(name)!r}, and each must have a name of "
                f"its own (such names: {len(repeated)}); correct what the source calls "
                "them, or let a generator leave out 'path'."
            )
        seen.update({name} if hash(name) in repeated else ())


def _usable_names(rows: pa.Table) -> list[bytes]:
    return rows["path"].filter(rows["reason"].is_null()).to_pylist()


def _number(values: Sequence[object], codes: dict[object, int]) -> np.ndarray:
    """A code for each value, int32 [n]; values without one yet get the next."""
    return np.array([codes.setdefault(value, len(codes)) for value in values], np.int32)


def _hash_labels(rows: pa.Table, label: np.ndarray, options: IngestOptions) -> np.ndarray:
    """A code for the labels of each image: that of its class, where it has no others."""
    if options.label_kind is CLASSES:
        return label
    return np.array([_hash(labels) for labels in read_labels(rows, options)], np.int64)


def read_labels(rows: pa.Table, options: IngestOptions) -> list[object]:
    """The labels of each image: its class, tags or value, its mask, and its boxes."""
    present = [name for name in ("label", "boxes") if name in options.further_types]
    columns = (rows[name].to_pylist() for name in ("label", "mask_sha256"))
    further = (_read_column(rows, name, options) for name in present)
    return list(zip(*columns, *further, strict=True))


def _hash(value: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:8], "big", signed=True)


def _read_column(rows: pa.Table, name: str, options: IngestOptions) -> list[object]:
    """A further column's values; None for rows that have none."""
    index = order_names(options.further_types).index(name)
    # Boxes are several features, the last ones.
    part = slice(index, None) if name == "boxes" else index
    further = rows["further"].to_pylist()
    return [None if cells is None else str(json.loads(cells)[part]) for cells in further]


def _halves(column: pa.ChunkedArray) -> np.ndarray:
    """The first 16 bytes of a binary column as big-endian uint64 [n, 2]; nulls become zeros."""
    joined = b"".join(value[:16] if value else bytes(16) for value in column.to_pylist())
    return np.frombuffer(joined, ">u8").reshape(-1, 2).astype(np.uint64)


def _hash_groups(groups: list[str | None], content: np.ndarray) -> np.ndarray:
    hashes = content.copy()
    for row, group in enumerate(groups):
        if group is not None:
            hashes[row] = int.from_bytes(hashlib.sha256(group.encode()).digest()[:8], "big")
    return hashes


def _codes(column: pa.ChunkedArray, codes: dict) -> np.ndarray:
    return np.array([codes.get(value, NOWHERE) for value in column.to_pylist()], np.int32)
