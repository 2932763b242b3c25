"""Reads, checks and prepares a chunk of images: every source is read once, here.

A chunk becomes two files in the working folder: `<chunk>.payload`, the prepared images one after
the other, and `<chunk>.arrow`, a row for every source, written last: its presence means that the
chunk is done, so an interrupted run continues after it. All that follows (duplicates, splits,
order, shards) is computed from the rows and only copies payloads, so a source that vanishes or
changes later does no harm, and the balance of shards is exact.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa

from image_pipeline.components import files, progress
from image_pipeline.components.archives.read_ahead import read_ahead
from image_pipeline.components.arrays.in_place import make_reference
from image_pipeline.components.dataset.index_file import MASK_FIELDS
from image_pipeline.components.dataset.paths import name_copy
from image_pipeline.components.dataset.record import make_record_id
from image_pipeline.components.images.boxes import (
    BAD_BOX,
    BoxOptions,
    PreparedBoxes,
    SaidBox,
    prepare_boxes,
)
from image_pipeline.components.images.mask_file import BAD_MASK, MASK_SIZE
from image_pipeline.components.images.masks import MaskOptions, prepare_mask
from image_pipeline.components.images.prepare import BadImage, PreparedImage, prepare_image
from image_pipeline.components.ingest.open_source import open_source
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.path_patterns import (
    find_tags,
    group_of,
    label_of,
    split_of,
)
from image_pipeline.components.ingest.payloads import rows_path, write_payloads
from image_pipeline.components.ingest.perceptual import hash_image
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.sources.own_source import is_own_source
from image_pipeline.components.sources.pairs import match_template
from image_pipeline.components.sources.places import check_unchanged
from image_pipeline.components.sources.reading import MISSING_FILE, SkippedFile, try_read_pair
from image_pipeline.components.sources.references import Chunk, ImageRef, Source, list_fields
from image_pipeline.components.tables.table import check_bad_row
from image_pipeline.components.tables.table_files import is_table
from image_pipeline.components.threads import REMOTE_THREADS, map_in_order, usable_cores

CODE_VERSION = 5  # Raise it when the same source and options would give other rows or payloads.

ROW_SCHEMA = pa.schema(
    [
        ("path", pa.large_binary()),  # relative to the images folder, the file system's own bytes
        ("record_id", pa.binary(16)),
        ("sha256", pa.binary(32)),  # of the source's bytes; null if they could not be read
        ("reason", pa.string()),  # why it is quarantined or skipped; null if it was prepared
        ("is_skipped", pa.bool_()),  # null if it is not: it is prepared, or quarantined
        ("message", pa.large_string()),
        ("source_bytes", pa.int64()),
        ("label", pa.string()),
        ("group", pa.string()),
        ("forced_split", pa.string()),
        ("further", pa.large_string()),  # a table's further columns as JSON; null without any
        ("chunk", pa.string()),
        ("payload_offset", pa.int64()),
        ("payload_length", pa.int64()),
        ("format", pa.string()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("channels", pa.int32()),
        ("source_format", pa.string()),
        ("source_height", pa.int32()),
        ("source_width", pa.int32()),
        ("orientation", pa.int32()),
        ("notes", pa.list_(pa.string())),
        ("perceptual_hash", pa.uint64()),  # of the stored image; null unless near_duplicates is set
        ("mask_sha256", pa.binary(32)),  # of the stored mask; the payload begins with it
        *MASK_FIELDS,
    ]
)

_Read = bytes | BadImage | SkippedFile


# What is wrong with a table's row, not with an image; that a file is missing behind a URI is only
# known when it is read.
_OF_ROWS = (MISSING_FILE, "no_label", "unknown_label", "unknown_split", "no_mask", BAD_BOX)


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedChunk:
    """What the prepare stage passes on: a few bytes for hundreds of images.

    Attributes:
      number: the chunk's number.
      is_last: whether the listing ended with it.
      found: number of references in it.
      bad: how many of them are quarantined.
      name: its files in the working folder are `name` + ".payload" and ".arrow".
      skipped: how many of them are not images.
      shards: of a generator, how many shards these images are of, which were listed instead.
      parts: into how many pairs of files they are divided; None: they have one, called `name`.
    """

    number: int
    is_last: bool
    found: int
    bad: int
    name: str
    skipped: int = 0
    shards: int | None = None
    parts: int | None = None

    @property
    def listed(self) -> int:
        """How many of the references that were listed it is made from."""
        return self.found if self.shards is None else self.shards

    @property
    def names(self) -> list[str]:
        """The names of its files."""
        return [self.name] if self.parts is None else name_parts(self.name, self.parts)


def name_parts(name: str, parts: int) -> list[str]:
    """The names of a chunk's files, if there are several."""
    return [f"{name}-{part:05d}" for part in range(parts)]


def prepare_chunk(
    chunk: Chunk, images_dir: str, work_dir: str, options: IngestOptions
) -> PreparedChunk:
    """Prepares the chunk's images, unless an earlier run already did.

    Args:
      chunk: the references.
      images_dir: the folder or table that they are of.
      work_dir: the working folder; it survives a failed run.
      options: of ingest.

    Returns:
      What was prepared.
    """
    name = name_chunk(chunk, images_dir, work_dir, options)
    path = rows_path(work_dir, name)
    source = open_source(images_dir, options)
    if not files.is_file(path) or _may_be_repaired(chunk, path):
        source = read_ahead(chunk.refs, source, options.prepare.max_file_bytes)
        results = _prepare_unchanged(chunk.refs, source, work_dir, options)
        bad, skipped = count_unusable(write_rows(results, name, work_dir, options))
    else:
        bad, skipped = count_unusable(read_rows(path))
        progress.advance(len(chunk.refs), bad, skipped)
    return PreparedChunk(chunk.number, chunk.is_last, len(chunk.refs), bad, name, skipped)


def write_rows(
    results: Iterable[tuple[dict, bytes]], name: str, work_dir: str, options: IngestOptions
) -> pa.Table:
    """Writes the two files of a chunk; returns the rows."""
    rows = write_payloads(results, name, work_dir, options.seed)
    with files.write_atomically(rows_path(work_dir, name)) as file:
        table = pa.Table.from_pylist(rows, ROW_SCHEMA)
        with pa.ipc.new_file(file, ROW_SCHEMA) as writer:
            writer.write_table(table)
    return table


def count_unusable(rows: pa.Table) -> tuple[int, int]:
    """How many rows are quarantined sources, and how many are skipped ones."""
    skipped = len(rows) - rows["is_skipped"].null_count
    return len(rows) - rows["reason"].null_count - skipped, skipped


def read_rows(path: str) -> pa.Table:
    """Reads a chunk's rows; local files are mapped into memory, not copied."""
    if files.is_local(path):
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    return pa.ipc.open_file(pa.BufferReader(files.read_file(path))).read_all()


def read_chunk_rows(chunk: PreparedChunk, work_dir: str) -> pa.Table:
    """Reads the rows of a chunk that is done; as `read_rows`."""
    return pa.concat_tables(read_rows(rows_path(work_dir, name)) for name in chunk.names)


def _may_be_repaired(chunk: Chunk, path: str) -> bool:
    """Whether unusable files may have changed unseen: those of a table behind URIs."""
    is_seen = all(ref.said is None or ref.modified_ns or ref.problem for ref in chunk.refs)
    return not is_seen and count_unusable(read_rows(path))[0] > 0


def name_chunk(chunk: Chunk, images_dir: str, work_dir: str, options: IngestOptions) -> str:
    """A hash of everything that the chunk's rows and payloads depend on."""
    kept = {"prepare", "label_pattern", "group_pattern", "split_pattern", "split_names", "classes"}
    kept |= {"splits", *TableOptions.model_fields}
    newer = ("masks", "generator", "video", "in_place")
    kept |= {name for name in newer if getattr(options, name)}
    depends_on = [CODE_VERSION, options.model_dump(mode="json", include=kept)]
    depends_on += [options.near_duplicates is not None]  # Its value matters later, in the plan.
    if not files.is_local(work_dir):
        depends_on += [options.seed]  # See `write_payloads`.
    if is_table(images_dir) or is_own_source(images_dir):
        depends_on += [open_source(images_dir, options).root]
    depends_on += [list_fields(ref) for ref in chunk.refs]
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:32]


def count_progress(results: Iterable[tuple[dict, bytes]]) -> Iterator[tuple[dict, bytes]]:
    """Counts prepared images as progress."""
    for row, payload in results:
        is_skipped = "is_skipped" in row
        progress.advance(bad="reason" in row and not is_skipped, skipped=is_skipped)
        yield row, payload


def count_threads(source: Source, options: IngestOptions) -> int:
    """The number of a task's threads that read."""
    is_local = files.is_local(source.root)
    return options.threads or (usable_cores() + 1 if is_local else REMOTE_THREADS)


def _prepare_unchanged(
    refs: Sequence[ImageRef], source: Source, work_dir: str, options: IngestOptions
) -> Iterator[tuple[dict, bytes]]:
    """As `_prepare_sources`; fails in the end, before the chunk is done, if a file was changed."""
    yield from count_progress(_prepare_sources(refs, source, work_dir, options))
    check_unchanged(refs)


def _prepare_sources(
    refs: Iterable[ImageRef], source: Source, work_dir: str, options: IngestOptions
) -> Iterator[tuple[dict, bytes]]:
    """Prepares sources in threads; yields the results of `prepare_source` in order."""
    if files.is_local(source.root):
        return map_in_order(
            lambda ref: prepare_source(ref, source, work_dir, options),
            refs,
            count_threads(source, options),
            batch=8,
        )
    # Many threads wait for the store, but few decode: a decoded image is 30 times its file's size.
    read = map_in_order(
        lambda ref: (ref, *_read_pair(ref, source, options)),
        refs,
        count_threads(source, options),
        ahead=1,
    )
    return map_in_order(
        lambda each: _prepare_data(*each, work_dir, options), read, usable_cores() + 1, ahead=2
    )


def prepare_source(
    ref: ImageRef, source: Source, work_dir: str, options: IngestOptions
) -> tuple[dict, bytes]:
    """Reads one reference and prepares its image.

    Returns:
      The source's row (see `ROW_SCHEMA`) and the bytes to store, b"" if it is not usable.
    """
    return _prepare_data(ref, *_read_pair(ref, source, options), work_dir, options)


def _read_pair(ref: ImageRef, source: Source, options: IngestOptions) -> tuple[_Read, _Read | None]:
    prepare = options.prepare
    return try_read_pair(ref, source, prepare.max_file_bytes, prepare.sound is not None)


def _prepare_data(
    ref: ImageRef, read: _Read, mask: _Read | None, work_dir: str, options: IngestOptions
) -> tuple[dict, bytes]:
    """Prepares what was read, or says why it could not be; returns as `prepare_source`."""
    row: dict[str, Any] = columns_of(ref, options) | {"source_bytes": ref.size_bytes}
    if isinstance(read, SkippedFile):
        return row | {"is_skipped": True, "reason": read.kind, "message": read.message}, b""
    data = b""
    try:
        if isinstance(read, BadImage):
            raise read
        data = read
        content = hashlib.sha256(data).digest()
        row |= {"sha256": content, "source_bytes": len(data)}
        row["record_id"] = make_record_id(content, row["path"])
        _check_places(row, ref, options)
        image = prepare_image(data, options.prepare)
        stored = make_reference(ref, data, image.encoded) if options.in_place else image.encoded
        masks, stored_mask = _prepare_mask(ref, mask, image, options)
        boxes = _prepare_boxes(ref, image, options)
    except BadImage as error:
        if ref.said is not None and error.reason in _OF_ROWS:
            check_bad_row(error.message, options)
        _keep_copy(row, data, work_dir)
        return row | {"reason": error.reason, "message": error.message}, b""
    if options.near_duplicates is not None:
        row["perceptual_hash"] = hash_image(image)
    row |= _image_columns(image)
    if boxes is not None:
        row["further"] = _join_boxes(ref, boxes)
        row["notes"] += boxes.notes
    return row | masks, stored_mask + stored


def _prepare_mask(
    ref: ImageRef, read: _Read | None, image: PreparedImage, options: IngestOptions
) -> tuple[dict[str, Any], bytes]:
    """A mask's columns and the bytes to store; none, if images have none.

    Raises:
      BadImage: if the image should have a mask that can be used, and has not.
    """
    if not options.has_masks:
        return {}, b""
    if ref.mask is None:
        raise BadImage("no_mask", _explain_no_mask(ref, options))
    try:
        if isinstance(read, SkippedFile):
            raise BadImage(BAD_MASK, read.message)
        if isinstance(read, BadImage):
            raise read
        assert read is not None  # It is read wherever the image is.
        mask = prepare_mask(read, image, options.masks or MaskOptions())
    except BadImage as error:
        is_own = error.reason in (BAD_MASK, MASK_SIZE)
        reason = "no_mask" if error.reason == MISSING_FILE else BAD_MASK
        message = f"its mask {ref.mask.path!r} {'' if is_own else '- '}{error.message}"
        raise BadImage(error.reason if is_own else reason, message) from error
    columns = {
        "mask_sha256": hashlib.sha256(mask.encoded).digest(),
        "mask_source": os.fsencode(ref.mask.path).decode(errors="backslashreplace"),
        "mask_length": len(mask.encoded),
        "mask_ids": list(mask.ids),
        "mask_pixels": list(mask.pixels),
    }
    return columns, mask.encoded


def _prepare_boxes(
    ref: ImageRef, image: PreparedImage, options: IngestOptions
) -> PreparedBoxes | None:
    """An image's boxes; None if images have none. Raises BadImage as `prepare_boxes` does."""
    if not options.has_boxes or ref.said is None:
        return None
    stated_size, said = cast(tuple[list[int], list[SaidBox]], ref.said.further[-1])
    try:
        return prepare_boxes(said, stated_size, image, options.boxes or BoxOptions())
    except BadImage as error:
        raise BadImage(error.reason, f"{ref.said.row}: {error.message}") from error


def _join_boxes(ref: ImageRef, boxes: PreparedBoxes) -> str:
    """A table's further columns as JSON: the features of boxes are the last."""
    assert ref.said is not None
    return json.dumps([*ref.said.further[:-1], *dataclasses.astuple(boxes)[:-1]])


def _explain_no_mask(ref: ImageRef, options: IngestOptions) -> str:
    if ref.said is not None:
        return f"{ref.said.row}: the column {options.columns.get('mask')!r} is empty"
    assert options.masks is not None
    images, masks = options.masks.images or "", options.masks.masks
    if match_template(images, ref.path) is None:
        return f"its path is neither an image's, {images}, nor a mask's, {masks}; see ingest.masks"
    return f"no file is its mask, which {masks} would fit; see ingest.masks"


def columns_of(ref: ImageRef, options: IngestOptions) -> dict[str, Any]:
    """The columns of a source's row that depend on its path."""
    columns = {
        "path": os.fsencode(ref.path),
        "label": label_of(ref, options),
        "group": group_of(ref, options),
        "forced_split": split_of(ref, options),
    }
    if ref.said is not None and ref.said.further:
        columns["further"] = json.dumps(ref.said.further)
    return columns


def _check_places(row: dict, ref: ImageRef, options: IngestOptions) -> None:
    """Checks that the path names a label, and that a split it names exists."""
    at = "" if ref.said is None else f"{ref.said.row}: "
    if row["label"] is None:
        missing = f"the path does not match label_pattern {options.label_pattern!r}"
        if ref.said is not None and ref.said.label is not None:
            missing = f"{at}the column {options.columns['label']!r} is empty"
        raise BadImage("no_label", missing)
    labels = [row["label"]] if (tags := find_tags(ref, options)) is None else tags
    if options.classes is not None and (unknown := set(labels).difference(options.classes)):
        raise BadImage("unknown_label", f"{at}{min(unknown)!r} is not one of ingest.classes")
    if row["forced_split"] is not None and row["forced_split"] not in options.splits:
        known = ", ".join(options.splits)
        raise BadImage(
            "unknown_split",
            f"{at}{row['forced_split']!r} is not one of splits: {known}; set ingest.splits, or "
            "ingest.split_names",
        )


def _keep_copy(row: dict, data: bytes, work_dir: str) -> None:
    """Keeps a quarantined source's bytes, so that it can be looked at in the run's output."""
    if data:
        path = files.join(work_dir, name_copy(hashlib.sha256(data).hexdigest()))
        if not files.is_file(path):
            files.write_file(path, data)


def _image_columns(image: PreparedImage) -> dict:
    columns = {field.name: getattr(image, field.name) for field in dataclasses.fields(image)}
    del columns["encoded"]
    return columns | {"notes": list(image.notes)}
