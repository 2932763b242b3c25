"""Writes one shard: copies prepared images, in order, into a TFRecord file that appears whole."""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.dataset.index_file import index_name, index_schema
from image_pipeline.components.dataset.record import further_of
from image_pipeline.components.dataset.tfrecord import FOOTER_BYTES, HEADER_BYTES
from image_pipeline.components.ingest.framed_records import BATCH_ROWS, frame_records
from image_pipeline.components.ingest.partition import ShardTask, read_task_rows
from image_pipeline.components.ingest.payloads import open_payloads
from image_pipeline.components.ingest.work_folder import WorkFolder, sum_file
from image_pipeline.components.labels.kinds import find_kind
from image_pipeline.components.threads import call_together, take_ahead


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
        lambda: read_task_rows(task, work),
        lambda: files.is_file(shard_path),
    )
    # Named by its content: which payloads of which chunks, in which order, with which class ids.
    part = f"index/{task.path}-{_hash_rows(rows, task.classes)}.arrow"
    described = _find_described(work, shard_path, part) if has_name else None
    if described is None:
        if has_name:  # Where a mark is written, no other shard may lie.
            files.delete(shard_path)
        # The shard gets its name last: one with its name is complete, and so is its index.
        with files.write_atomically(shard_path) as shard:
            index = pa.BufferOutputStream()
            with pa.ipc.new_file(index, index_schema(task.columns)) as writer:
                described = _write_records(task, rows, work, shard, writer)
            content = index.getvalue().to_pybytes()
            mark = {"shard": described, "index": google_crc32c.value(content)}
            call_together(
                lambda: files.write_file(work.join(part), content),
                lambda: work.write_sealed(f"{part}.json", mark),
            )
            work.check()
    return WrittenShard(task, index_path=work.join(part), **described)


def _find_described(work: WorkFolder, shard_path: str, part: str) -> dict | None:
    """How an earlier run has described a shard that it finished.

    None if the shard has another length than that, or its part of the index was damaged. (The
    shard itself is not read: its records have checksums of their own.)
    """
    stored = work.read_sealed(f"{part}.json")
    if stored is None or stored["index"] != sum_file(work.join(part)):
        return None
    size_bytes, _ = files.stat_file(shard_path)
    return stored["shard"] if size_bytes == stored["shard"]["size_bytes"] else None


def read_index(index_path: str) -> pa.Table:
    """Reads a shard's part of the index."""
    return pa.ipc.open_file(pa.BufferReader(files.read_file(index_path))).read_all()


def _hash_rows(rows: pa.Table, classes: Sequence[str] | None) -> str:
    """Hashes the shard's content: which payloads of which chunks, in which order; class ids."""
    digest = hashlib.sha256(b"" if classes is None else json.dumps(classes).encode())
    for column in ("chunk", "payload_offset"):
        digest.update("\n".join(map(str, rows[column].to_pylist())).encode())
    return digest.hexdigest()[:16]


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
    with open_payloads(rows, work) as payloads:
        framed = frame_records(rows, payloads, task)
        with contextlib.closing(take_ahead(framed)) as blocks:
            for block, of_block in blocks:
                shard.write(block)
                digest.update(block)
                written += of_block
    lengths, offset = np.array(written, np.int64), 0
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        of_batch, lengths = np.split(lengths, [len(batch)])
        index.write_batch(_index_batch(batch, task, offset, of_batch))
        offset += int((of_batch + HEADER_BYTES + FOOTER_BYTES).sum())
    described = {"records": len(rows), "size_bytes": offset, "sha256": digest.hexdigest()}
    return described | {"counted": find_kind(task.columns).count(rows)}


def _index_batch(
    batch: pa.RecordBatch, task: ShardTask, offset: int, lengths: np.ndarray
) -> pa.RecordBatch:
    """The index entries of consecutive records, from `offset` on."""
    ends = offset + np.cumsum(lengths + HEADER_BYTES + FOOTER_BYTES)
    schema = index_schema(task.columns)
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
    columns |= _further_columns(batch, task)
    return pa.RecordBatch.from_pydict(columns, schema)


def _further_columns(batch: pa.RecordBatch, task: ShardTask) -> dict[str, list]:
    """The values of a table's further columns, if there are any."""
    further = further_of(task.columns)
    if not further:
        return {}
    said = [json.loads(row) for row in batch["further"].to_pylist()]
    return {index_name(c): [row[at] for row in said] for at, c in enumerate(further)}
