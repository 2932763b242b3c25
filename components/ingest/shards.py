"""Writes one shard: copies prepared images, in order, into a TFRecord file that appears whole."""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import index_name, index_schema
from image_pipeline.components.dataset.paths import name_shard
from image_pipeline.components.dataset.tfrecord import FOOTER_BYTES, HEADER_BYTES, frame
from image_pipeline.components.ingest.placed_rows import RowSpan, read_placed_rows
from image_pipeline.components.ingest.prepared import Payloads, Place, open_payloads
from image_pipeline.components.ingest.work_folder import WorkFolder, sum_file
from image_pipeline.components.labels.kinds import find_kind
from image_pipeline.components.sources.column_types import feature_value
from image_pipeline.components.threads import call_together, take_ahead

_BATCH_ROWS = 1024  # Rows that are Python's objects at a time.
# Records are handed on in blocks of this size: a hundred photos of 256 pixels.
_BLOCK_BYTES = 2**21

# What a record needs besides its payload.
_RECORD_ROWS = [
    "mask_length",
    *("format", "height", "width", "channels", "path", "record_id", "sha256", "label", "further"),
]


@dataclasses.dataclass(frozen=True, slots=True)
class ShardTask:
    """One shard to write.

    Attributes:
      split: name of its split.
      shard: number within the split.
      shards: how many the split has.
      number: number over all splits.
      total: how many there are over all splits.
      plan: a name for all that the plan depends on, which its files in the working folder have.
      row_span: where in the file of all shards' rows this shard's are.
      columns: all columns of the records.
      classes: the classes' names in the order of their numbers; None if records have no numbers.
      keeps: whether records are copied as they are that the earlier data set has, too; False if it
        numbers classes in another way.
    """

    split: str
    shard: int
    shards: int
    number: int
    total: int
    plan: str
    row_span: RowSpan
    columns: tuple[record.Column, ...] = record.COLUMNS
    classes: tuple[str, ...] | None = None
    keeps: bool = True

    @property
    def path(self) -> str:
        """The shard's path below the output folder."""
        return name_shard(self.split, self.shard, self.shards)


@dataclasses.dataclass(frozen=True, slots=True)
class WrittenShard:
    """What the write stage passes on.

    Attributes:
      task: the shard.
      records: how many it holds.
      size_bytes: the file's size.
      sha256: of the file, 64 hexadecimal digits.
      index_path: the Arrow file with its part of the index, see `INDEX_SCHEMA`.
      counted: what its labels are, see `LabelKind.count`.
    """

    task: ShardTask
    records: int
    size_bytes: int
    sha256: str
    index_path: str
    counted: dict[str, Any] = dataclasses.field(default_factory=dict)


def write_shard(task: ShardTask, work: WorkFolder, output_dir: str) -> WrittenShard:
    """Writes the shard and its part of the index, unless an earlier run already did.

    Args:
      task: the shard.
      work: the working folder.
      output_dir: the shard's path is `task.path` below it.

    Returns:
      What was written.

    Raises:
      UserError: if another run has begun.
    """
    shard_path = files.join(output_dir, task.path)
    _, rows, has_name = call_together(
        work.check,
        lambda: read_placed_rows(work.placed_path(task.plan), task.row_span),
        lambda: files.is_file(shard_path),
    )
    # The whole rows: where a payload is in an earlier data set does not tell the label it has now.
    of_rows = pa.BufferOutputStream()
    with pa.ipc.new_stream(of_rows, rows.schema) as writer:
        writer.write_table(rows)
    digest = hashlib.sha256(repr((task.classes, task.columns)).encode())
    digest.update(of_rows.getvalue())
    content = digest.hexdigest()[:16]
    index_path, mark = work.join("index", f"{task.path}-{content}.arrow"), f"index/{task.path}.json"
    # What an earlier run has finished is taken over if all of it is as it was described. (The shard
    # itself is not read: its records have checksums of their own.)
    if (
        has_name
        and (known := work.read_sealed(mark)) is not None
        and known["content"] == content
        and known["index"] == sum_file(index_path)
        and known["shard"]["size_bytes"] == files.stat_file(shard_path)[0]
    ):
        return WrittenShard(task, index_path=index_path, **known["shard"])
    if has_name:  # The mark must not be taken for one of this shard.
        files.delete(shard_path)
    with files.write_atomically(shard_path) as shard:
        index = pa.BufferOutputStream()
        with pa.ipc.new_file(index, index_schema(task.columns)) as of_index:
            described = _write_records(task, rows, work, shard, of_index)
        index_bytes = index.getvalue().to_pybytes()
        call_together(work.check, lambda: files.write_file(index_path, index_bytes))
        sum_of_index = google_crc32c.value(index_bytes)
        work.write_sealed(mark, {"content": content, "shard": described, "index": sum_of_index})
        # Last, the shard gets its name: one that has it is complete, and so is its index.
        work.check()
    return WrittenShard(task, index_path=index_path, **described)


def _write_records(
    task: ShardTask,
    rows: pa.Table,
    work: WorkFolder,
    shard: BinaryIO,
    index: pa.ipc.RecordBatchFileWriter,
) -> dict:
    """Writes the records, then their entries in the index; describes the shard.

    The next records are read and encoded while the last ones are hashed and written.
    """
    digest = hashlib.sha256()
    written: list[int] = []
    is_kept = rows["is_kept"].fill_null(False) if task.keeps else pa.repeat(False, len(rows))
    rows = rows.set_column(rows.schema.get_field_index("is_kept"), "is_kept", is_kept)
    with open_payloads(rows, work) as payloads:
        framed = frame_records(rows, payloads, task)
        with contextlib.closing(take_ahead(framed)) as blocks:
            for block, of_block in blocks:
                shard.write(block)
                digest.update(block)
                written += of_block
    rest, offset = np.array(written, np.int64), 0
    schema, further = index_schema(task.columns), record.further_of(task.columns)
    for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
        lengths, rest = np.split(rest, [len(batch)])
        ends = offset + np.cumsum(lengths + HEADER_BYTES + FOOTER_BYTES)
        columns = {name: batch[name] for name in schema.names if name in batch.schema.names}
        # Before an image, its mask is stored.
        stored = batch["payload_length"].to_numpy() - batch["mask_length"].fill_null(0).to_numpy()
        columns |= {
            "split": pa.repeat(task.split, len(lengths)),
            "shard": pa.repeat(pa.scalar(task.shard, pa.int32()), len(lengths)),
            "record_offset": ends - lengths - HEADER_BYTES - FOOTER_BYTES,
            "record_length": lengths,
            # The image is the record's last column, so it ends where the record's data ends.
            "payload_offset": ends - FOOTER_BYTES - stored,
            "payload_length": stored,
            "record_id": [value.hex() for value in batch["record_id"].to_pylist()],
            "source": [p.decode(errors="backslashreplace") for p in batch["path"].to_pylist()],
        }
        if further:
            cells = [json.loads(row) for row in batch["further"].to_pylist()]
            columns |= {index_name(c): [row[at] for row in cells] for at, c in enumerate(further)}
        index.write_batch(pa.RecordBatch.from_pydict(columns, schema))
        offset = int(ends[-1]) if len(ends) else offset
    described = {"records": len(rows), "size_bytes": offset, "sha256": digest.hexdigest()}
    return described | {"counted": find_kind(task.columns).count(rows)}


def frame_records(
    rows: pa.Table, payloads: Payloads, task: ShardTask
) -> Iterator[tuple[bytes, list[int]]]:
    """Reads and encodes a shard's records; those of the earlier data set are copied.

    Yields:
      Some records, one after the other as the file has them, and the length of each one's data.
    """
    class_ids = None if task.classes is None else {n: i for i, n in enumerate(task.classes)}
    further = record.further_of(task.columns)
    framed: list[bytes] = []
    lengths: list[int] = []
    size_bytes = 0
    for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
        changed = batch.filter(pc.invert(batch["is_kept"])).select(_RECORD_ROWS)
        made = iter(changed.to_pylist())
        columns = (batch[name].to_pylist() for name in Place._fields)
        for place in map(Place._make, zip(*columns, strict=True)):
            own = payloads.read(place)
            if not place.is_kept:
                values = record_values(next(made), own, further, class_ids)
                own = frame(record.encode_example(values, task.columns))
            framed.append(own)
            lengths.append(len(own) - HEADER_BYTES - FOOTER_BYTES)
            size_bytes += len(own)
            if size_bytes >= _BLOCK_BYTES:
                yield b"".join(framed), lengths
                framed, lengths, size_bytes = [], [], 0
    yield b"".join(framed), lengths


def record_values(
    row: dict,
    payload: bytes,
    further: Sequence[record.Column] = (),
    class_ids: Mapping[str, int] | None = None,
) -> dict[str, record.Value]:
    """The record of a source's row and its payload, with a table's further columns.

    Args:
      row: see `prepared.ROW_SCHEMA`.
      payload: the mask, if there is one, and the image, as they are stored.
      further: the table's further columns.
      class_ids: the number of each class; None if records do not have it.
    """
    cells = json.loads(row["further"]) if further else ()
    mask_length = row.get("mask_length") or 0
    masks = {record.MASK: payload[:mask_length], record.MASK_FORMAT: b"png"} if mask_length else {}
    ids = {} if class_ids is None else {record.LABEL_ID: class_ids[row["label"]]}
    return {
        **masks,
        **ids,
        **{c.key: feature_value(value) for c, value in zip(further, cells, strict=True)},
        record.IMAGE: payload[mask_length:],
        record.FORMAT: row["format"].encode(),
        record.HEIGHT: row["height"],
        record.WIDTH: row["width"],
        record.CHANNELS: row["channels"],
        record.COLORSPACE: {1: b"GRAY", 3: b"RGB"}.get(row["channels"], b"OTHER"),
        record.FILENAME: row["path"],
        record.SOURCE_ID: row["record_id"].hex().encode(),
        record.SHA256: row["sha256"].hex().encode(),
        record.LABEL: row["label"].encode(),
    }
