"""Restores what the prepare stage left for a data set: a row and a payload per source.

The shards hold every image as it was stored; the index, records and paths have the rest.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import google_crc32c
import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import (
    INDEX_SCHEMA,
    MASK_FIELDS,
    check_index,
    check_rows,
    index_name,
    read_shard_rows,
    reading_index,
)
from image_pipeline.components.dataset.lists import Duplicate, read_list
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.tfrecord import CorruptRecord, read_records
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.prepare import PreparedImage
from image_pipeline.components.ingest.groups import hash_image
from image_pipeline.components.ingest.prepare_chunk import columns_of
from image_pipeline.components.ingest.prepared import (
    ROW_SCHEMA,
    count_unusable,
    read_rows,
    write_table,
)
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.labels.kinds import BOXES
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import split_of
from image_pipeline.components.sources.folder import listing_key
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.source_kinds import kind_of

_ROWS_AT_ONCE = 100_000
_INDEXED = [name for name in INDEX_SCHEMA.names if name in ROW_SCHEMA.names]


def list_shards(output_dir: str) -> list[tuple[str, int, str]]:
    """Each shard of a data set: its split, its number within it, and its path.

    Raises:
      UserError: if the manifest or the index was changed.
    """
    check_index(output_dir)
    listed = read_manifest(output_dir).list_shards()
    return [(split, number, shard.file) for split, number, shard in listed]


def unpack_shard(
    shard: tuple[str, int, str],
    output_dir: str,
    work: WorkFolder,
    options: IngestOptions,
) -> str:
    """Restores from a shard the two files that `prepare_chunk` would have left.

    Returns:
      Their name, which no other attempt uses: a late one may read a shard that is rewritten by now.

    Raises:
      UserError: if a record is damaged, or another run has begun.
    """
    split, number, path = shard
    name = work.name_attempt(f"kept-{split}-{number:05d}")
    with reading_index(output_dir):
        rows = check_rows(output_dir, read_shard_rows(output_dir, split, number))
    try:
        with (
            files.open_input(files.join(output_dir, path)) as file,
            files.write_atomically(work.payload_path(name)) as payloads,
            files.write_atomically(work.rows_path(name)) as arrow,
            pa.ipc.new_file(arrow, ROW_SCHEMA) as writer,
        ):
            records = read_records(file)
            for kept in _restore_rows(records, rows, name, payloads, options):
                writer.write_batch(pa.RecordBatch.from_pylist(kept, ROW_SCHEMA))
            work.check()
    except (CorruptRecord, ValueError) as error:
        raise UserError(
            f"{path} is damaged ({error}), so its images cannot be kept; `image-pipeline verify` "
            "lists all damage. Run ingest again on the whole folder."
        ) from error
    return name


def _restore_rows(
    records: Iterator[bytes],
    index: pa.Table,
    name: str,
    payloads: BinaryIO,
    options: IngestOptions,
) -> Iterator[list[dict]]:
    """Writes the records' payloads and yields their rows, a thousand at a time."""
    offset = 0
    for batch in index.to_batches(max_chunksize=1024):
        kept = []
        for entry, data in zip(batch.to_pylist(), records, strict=False):
            row, payload = _restore_row(entry, data, options)
            payloads.write(payload)
            columns = {"payload_offset": offset, "payload_crc32c": google_crc32c.value(payload)}
            kept.append(row | {"chunk": name} | columns)
            offset += len(payload)
        yield kept
        if len(kept) != len(batch):
            raise ValueError("it has fewer records than the index")


def _restore_row(entry: dict, data: bytes, options: IngestOptions) -> tuple[dict, bytes]:
    """A record's row, as `prepare_source` made it, from its index entry; and its payload."""
    further = record.further_columns(options.column_types)
    values = record.decode_example(data, options.record_columns)
    payload = values[record.IMAGE]
    path = os.fsdecode(values[record.FILENAME])
    row = columns_of(ImageRef(path, 0, 0), options)
    row |= {column: entry[column] for column in _INDEXED}
    if options.columns:
        row["forced_split"] = entry["split"]  # Unless its row says otherwise, see `list_rows`.
    if further:
        row["further"] = json.dumps([entry[index_name(column)] for column in further])
    mask = values.get(record.MASK, b"")
    if mask:
        row |= {field.name: entry[field.name] for field in MASK_FIELDS}
        row["mask_sha256"] = hashlib.sha256(mask).digest()
        row["payload_length"] = len(mask) + len(payload)
    row["sha256"] = bytes.fromhex(values[record.SHA256].decode())
    row["record_id"] = record.make_record_id(row["sha256"], row["path"])
    if options.near_duplicates is not None:
        fields = {field.name for field in dataclasses.fields(PreparedImage)} - {"encoded"}
        image = PreparedImage(encoded=payload, **{name: row[name] for name in fields})
        row["perceptual_hash"] = hash_image(image)
    return row, mask + payload


def list_rows(
    kept: Sequence[str],
    retried: Sequence[PreparedChunk],
    images_dir: str,
    output_dir: str,
    work: WorkFolder,
    options: IngestOptions,
) -> list[PreparedChunk]:
    """Sorts the rows of all sources in the order of a listing; takes about 1 KB per source.

    Args:
      kept: names of the shards' files in the working folder.
      retried: chunks to merge with them.
      images_dir: the images folder.
      output_dir: the data set's folder.
      work: the working folder.

    Returns:
      The chunks that a fresh ingest would prepare, apart from their number and names.

    Raises:
      UserError: if another run has begun.
    """
    work.check()
    names = [*kept, *(chunk.name for chunk in retried)]
    rows = pa.concat_tables(read_rows(work.rows_path(name)) for name in names)
    # A table's rows as they are now, by path, in their order.
    listed: dict[str, ImageRef] = {}
    if kind_of(images_dir).has_rows:
        listed = {ref.path: ref for ref in open_source(images_dir, options).list()}
    rows = pa.concat_tables([rows, _restore_duplicates(rows, output_dir, listed, options)])
    paths = [os.fsdecode(path) for path in rows["path"].to_pylist()]
    if listed:
        # Records do not say whether a table chose their split; the table does. A record whose row
        # is gone stays in its split.
        at = rows.schema.get_field_index("forced_split")
        splits = [
            split_of(listed[path], options) if path in listed else split
            for path, split in zip(paths, rows["forced_split"].to_pylist(), strict=True)
        ]
        rows = rows.set_column(at, ROW_SCHEMA.field(at), pa.array(splits, pa.string()))
        numbers = {path: number for number, path in enumerate(listed)}
        keys: list = [(numbers.get(path, -1), path) for path in paths]
    else:
        keys = [listing_key(path, images_dir) for path in paths]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    chunks = []
    for number, first in enumerate(range(0, len(order), _ROWS_AT_ONCE)):
        name = work.name_attempt(f"listed-{number:05d}")
        part = rows.take(pa.array(order[first : first + _ROWS_AT_ONCE], pa.int64()))
        write_table(part, work.rows_path(name))
        bad, skipped = count_unusable(part)
        is_last = first + _ROWS_AT_ONCE >= len(order)
        chunks.append(PreparedChunk(number, is_last, len(part), bad, name, skipped))
    return chunks


def _restore_duplicates(
    rows: pa.Table, output_dir: str, listed: dict[str, ImageRef], options: IngestOptions
) -> pa.Table:
    """Rows of the files that were not stored: but for the path, those of the file they repeat."""
    lines = [line for line in read_list(output_dir, Duplicate) if not line.written]
    needed = {os.fsencode(line.original) for line in lines}
    where = [i for i, path in enumerate(rows["path"].to_pylist()) if path in needed]
    originals = {row["path"]: row for row in rows.take(pa.array(where, pa.int64())).to_pylist()}
    restored = []
    for line in lines:
        if os.fsencode(line.original) not in originals:
            raise UserError(
                f"{files.join(output_dir, Duplicate.FILE)!r} says that {line.path!r} repeats "
                f"{line.original!r}, but no record is of that; "
                "run ingest again on the whole folder."
            )
        ref = listed.get(line.path, ImageRef(line.path, 0, 0))
        original = originals[os.fsencode(line.original)]
        row = original | columns_of(ref, options)
        if options.label_kind is BOXES and ref.annotations is not None:
            # The boxes of the file that is repeated, which has them in pixels.
            boxes = json.loads(original["further"])[-len(record.BOX_COLUMNS) :]
            row["further"] = json.dumps([*json.loads(row["further"])[:-1], *boxes])
        row["label"] = line.label
        restored.append(row | {"record_id": record.make_record_id(row["sha256"], row["path"])})
    return pa.Table.from_pylist(restored, ROW_SCHEMA)
