"""Brings the rows of all chunks into the order of the shards, in bounded memory.

The rows are read some chunks at a time: first the few columns that the plan needs, then whole, to
be written in the shards' order into one file. A shard's task knows where in that file its rows are.
"""

import collections
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import SOURCES
from image_pipeline.components.dataset.record import order_names
from image_pipeline.components.errors import UserError, raise_together
from image_pipeline.components.ingest.earlier import write_sources
from image_pipeline.components.ingest.output import write_books, write_refused
from image_pipeline.components.ingest.placed_rows import SourceRows, write_placed_rows
from image_pipeline.components.ingest.plan import (
    NOWHERE,
    PLACE,
    SOURCE,
    Placement,
    Sources,
    place_sources,
)
from image_pipeline.components.ingest.prepared import read_chunk_rows
from image_pipeline.components.ingest.ranges import Ranges
from image_pipeline.components.ingest.shards import ShardTask
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.labels.kinds import CLASSES
from image_pipeline.components.labels.masks import check_ids
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import call_together, map_in_order

_NAME = np.dtype([("name", np.int64)])
_READ_COLUMNS = [
    *("path", "record_id", "sha256", "label", "group", "forced_split", "further", "payload_length"),
    *("perceptual_hash", "mask_sha256", "mask_ids"),
]


def plan_shards(
    prepared: Sequence[PreparedChunk], work: WorkFolder, options: IngestOptions
) -> list[ShardTask]:
    """Plans all shards and writes the rows that their tasks will read, and the books.

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
    # The rows are read several times, on this machine's disk: copied, if they are elsewhere.
    paths = [work.rows_path(name) for chunk in chunks for name in chunk.names]
    scratch = work.path if work.is_local else None
    with tempfile.TemporaryDirectory(dir=scratch) as scratch_dir:

        def copy(path: str) -> str:
            target = files.join(scratch_dir, path.rpartition("/")[2])
            with open(target, "wb") as file:
                file.writelines(files.read_blocks(path))
            return target

        if not work.is_local:
            paths = list(map_in_order(copy, paths, files.count_threads(work.path)))
        sources = SourceRows(paths)
        labels, placement = judge_rows(chunks, work, sources, scratch_dir, options)
        # The rows are read again, at the same time: those that the lists name, what the next ingest
        # may take, and whole ones, sorted by shard, so that a task reads its own in one piece.
        books_dir, taken = work.books_dir(plan), sum(chunk.taken for chunk in chunks)
        _, _, row_spans = call_together(
            lambda: write_books(sources, placement, labels, books_dir, options),
            lambda: write_sources(sources, placement, files.join(books_dir, SOURCES), taken),
            lambda: write_placed_rows(sources, placement, work.placed_path(plan), scratch_dir),
        )
    # Classes are numbered as given, or sorted.
    classes = options.classes if options.class_ids else None
    if options.class_ids and classes is None:
        written = np.flatnonzero(placement.counts.classes.any(axis=0))
        classes = tuple(sorted(labels[code] for code in written))
    pairs = [
        (split, shard, shards)
        for split, shards in zip(options.splits, placement.split_shards, strict=True)
        for shard in range(shards)
    ]
    columns, keeps = options.record_columns, True
    if work.earlier and classes is not None:
        keeps = read_manifest(work.earlier).class_names == classes
    return [
        ShardTask(*pair, number, len(pairs), plan, row_spans[number], columns, classes, keeps)
        for number, pair in enumerate(pairs)
    ]


def judge_rows(
    chunks: Sequence[PreparedChunk],
    work: WorkFolder,
    sources: SourceRows,
    scratch_dir: str,
    options: IngestOptions,
) -> tuple[list[str], Placement]:
    """Places the sources, and stops the run if that cannot be done or too many are lost.

    All that is wrong is said at once, and what is not usable is listed in the working folder.

    Args:
      chunks: in the listing's order.
      work: the working folder.
      sources: their rows.
      scratch_dir: for files, on this machine's disk.
      options: of ingest.

    Returns:
      What the codes of labels stand for, and the places.

    Raises:
      UserError: as `plan_shards`.
    """
    problems: list[UserError] = []
    places = Ranges(scratch_dir, PLACE, len(sources))
    try:
        check_share_of_bad(chunks, work, options)
    except UserError as error:
        problems.append(error)
    try:
        if any(chunk.found - chunk.bad - chunk.skipped for chunk in chunks):
            read = _read_sources(sources, scratch_dir, options)
            placement = place_sources(read, places, options, scratch_dir)
            # With the images of several labels, too many may be lost.
            conflicts, first = placement.counts.conflicts, placement.counts.first_conflict
            bad = sum(chunk.bad for chunk in chunks) + conflicts
            judged = sum(chunk.found - chunk.skipped for chunk in chunks)
            if conflicts and bad > options.max_bad_fraction * judged:
                example = os.fsdecode(sources.take(np.array([first]), ["path"])[first]["path"])
                raise UserError(
                    f"{bad} of {judged} files would be lost, more than ingest.max_bad_fraction="
                    f"{options.max_bad_fraction:g} allows: {conflicts} have the bytes of a file "
                    f"with {options.label_kind.another}, for example {example!r}. Remove those "
                    "that are wrong, set ingest.conflicting_labels=keep, or raise "
                    "ingest.max_bad_fraction."
                )
    except UserError as error:
        problems.append(error)
    if problems:
        write_refused(sources, places, work)
    raise_together(problems)
    return read.labels, placement


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
    counts, examples = collections.Counter[str](), dict[str, str]()
    for chunk in chunks:
        if chunk.bad or chunk.skipped:
            rows = read_chunk_rows(chunk, work)
            for row in rows.filter(pc.is_valid(rows["reason"])).to_pylist():
                if bad == judged or not row["is_skipped"]:
                    example = f"{os.fsdecode(row['path'])!r}: {row['message']}"
                    examples.setdefault(row["reason"], example)
                    counts[row["reason"]] += 1
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]
    lines = [f"  {count} {reason}, for example {examples[reason]}" for reason, count in frequent]
    verdict = (
        f"{bad} of {judged} files are not usable, more than ingest.max_bad_fraction="
        f"{options.max_bad_fraction:g} allows"
        if bad < judged
        else f"None of the {found} files found is a usable image"
    )
    allow = ", or raise ingest.max_bad_fraction" if bad < judged else ""
    raise UserError("\n".join([f"{verdict}:", *lines, f"Repair or remove them{allow}."]))


def _read_sources(sources: SourceRows, scratch_dir: str, options: IngestOptions) -> Sources:
    """Reads what the plan needs of all rows, and checks their names and masks.

    Raises:
      UserError: if several have one name, or it must be said whether 255 is a class of the masks.
    """
    split_codes = {split: code for code, split in enumerate(options.splits)}
    label_codes: dict[object, int] = {}
    stratum_codes: dict[object, int] = {}
    mask_ids: set[int] = set()
    usable, names = (Ranges(scratch_dir, dtype, len(sources)) for dtype in (SOURCE, _NAME))
    for first, table in sources.tables():
        is_usable = table["reason"].is_null()
        rows = table.select(_READ_COLUMNS).filter(is_usable)
        read = np.empty(len(rows), SOURCE)
        read["number"] = first + np.flatnonzero(is_usable.to_numpy())
        read["content"] = _halves(rows["sha256"])
        read["record_id"] = _halves(rows["record_id"])
        group = _code(
            rows["group"],
            lambda name: int.from_bytes(hashlib.sha256((name or "").encode()).digest()[:8], "big"),
            np.uint64,
        )
        is_alone = rows["group"].is_null().to_numpy()
        read["group"] = np.where(is_alone, read["content"][:, 0], group)
        read["forced_split"] = _code(rows["forced_split"], lambda n: split_codes.get(n, NOWHERE))
        read["label"] = _code(rows["label"], functools.partial(_find_code, label_codes))
        read["label_hash"] = read["stratum"] = read["label"]
        if options.label_kind is not CLASSES:
            read["label_hash"] = [_hash(labels) for labels in read_labels(rows, options)]
        if isinstance(options.stratify, str):
            strata = _read_column(rows, options.stratify, options)
            read["stratum"] = [_find_code(stratum_codes, stratum) for stratum in strata]
        read["stored_bytes"] = rows["payload_length"].to_numpy()
        read["perceptual_hash"] = rows["perceptual_hash"].fill_null(0).to_numpy()
        usable.add_by_hash(read, read["content"][:, 0])
        hashes = np.fromiter(map(hash, rows["path"].to_pylist()), np.int64, len(rows))
        names.add_by_hash(hashes.view(_NAME), hashes.view(np.uint64))
        mask_ids.update(pc.list_flatten(rows["mask_ids"]).unique().to_pylist())
    _check_names(names, sources)
    check_ids(mask_ids, options.masks)
    labels = [str(label or "") for label in label_codes]
    return Sources(len(sources), usable, labels, max(len(labels), len(stratum_codes)))


def _check_names(names: Ranges, sources: SourceRows) -> None:
    """Refuses names that several images have: books, retries and fixes tell images by their names.

    Args:
      names: hashes of the names of all usable images; what is not written may have any name.
      sources: all rows, which are read only if hashes repeat.
    """
    repeated, seen = set[int](), set[bytes]()
    for rows in names.drain():
        ordered = rows["name"]
        repeated.update(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    for _, rows in sources.tables() if repeated else ():
        for name in rows["path"].filter(rows["reason"].is_null()).to_pylist():
            if hash(name) in repeated and name in seen:
                raise UserError(
                    f"Two images are called {os.fsdecode(name)!r}, and each must have a name of "
                    f"its own (such names: {len(repeated)}); correct what the source calls "
                    "them, or let a generator leave out 'path'."
                )
            seen.update({name} if hash(name) in repeated else ())


def _code(
    column: pa.ChunkedArray, code: Callable[[Any], int], dtype: type = np.int32
) -> np.ndarray:
    """A number for each value of a column; `code` is asked once for each distinct one."""
    encoded = column.combine_chunks().dictionary_encode("encode")
    codes: np.ndarray = np.array([code(value) for value in encoded.dictionary.to_pylist()], dtype)
    return codes[encoded.indices.to_numpy()]


def _find_code(codes: dict[object, int], value: object) -> int:
    """The value's code; one that has none yet gets the next."""
    return codes.setdefault(value, len(codes))


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
    """The first 16 bytes of a binary column of fixed width, as big-endian uint64 [n, 2]."""
    array = column.combine_chunks()
    width = array.type.byte_width
    data = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)
    return data.reshape(-1, width)[:, :16].copy().view(">u8").astype(np.uint64)
