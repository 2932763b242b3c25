"""Writes the rows of all shards into one file, shard by shard, in bounded memory and linear time.

The rows come in the listing's order. A quarter of a million at a time is sorted by place and left
on the local disk as a run; then the runs are merged, again so many rows at a time. In the file, a
shard's rows are consecutive in one Arrow record batch, which small shards share: a batch costs 2
kB, more than the rows of a small shard.
"""

import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.ingest.plan import NOWHERE, Placement
from image_pipeline.components.ingest.prepared_rows import ROW_SCHEMA, read_rows

ROWS_AT_ONCE = 250_000
# Rows of a record batch, which is filled up with further shards' rows: 60 kB, which a task reads as
# fast as a few rows.
_BATCH_ROWS = 256
_RUN_SCHEMA = ROW_SCHEMA.append(pa.field("shard", pa.int32())).append(
    pa.field("position", pa.int32())
)


@dataclasses.dataclass(frozen=True, slots=True)
class RowSpan:
    """Where a shard's rows are in the file of all rows.

    Attributes:
      start: first byte of the record batch that has them.
      end: the byte after it.
      first_row: number of the first one in the record batch.
      rows: how many there are.
    """

    start: int
    end: int
    first_row: int
    rows: int


def write_placed_rows(
    paths: Sequence[str], placement: Placement, target: str, scratch_dir: str | None = None
) -> list[RowSpan]:
    """Writes the rows of all shards, in their order.

    Args:
      paths: files of the prepared rows, on this machine's disk, in the listing's order.
      placement: where each row goes.
      target: the file.
      scratch_dir: a local folder with room for the same size again; None for the system's own.

    Returns:
      For each shard, where its rows are.
    """
    total = sum(placement.split_shards)
    ends = np.cumsum(np.bincount(placement.shard[placement.shard != NOWHERE], minlength=total))
    spans: list[RowSpan] = []
    with (
        tempfile.TemporaryDirectory(dir=scratch_dir) as folder,
        files.write_atomically(target) as file,
    ):
        runs = list(_write_runs(paths, placement, folder))
        for first, end in _group_shards(ends, ROWS_AT_ONCE):
            rows, shard = _merge(runs, first, end)
            edges = np.searchsorted(shard, np.arange(first, end + 1)).tolist()
            for a, b in _group_shards(np.array(edges[1:]), _BATCH_ROWS):
                start = file.tell()
                file.write(rows.slice(edges[a], edges[b] - edges[a]).serialize())
                spans += [
                    RowSpan(start, file.tell(), edges[n] - edges[a], edges[n + 1] - edges[n])
                    for n in range(a, b)
                ]
    return spans


def read_placed_rows(path: str, span: RowSpan) -> pa.Table:
    """Reads the rows of a shard, in their final order."""
    data = pa.py_buffer(files.read_file(path, span.start, span.end))
    batch = pa.ipc.read_record_batch(data, ROW_SCHEMA)
    return pa.Table.from_batches([batch.slice(span.first_row, span.rows)])


def _write_runs(paths: Sequence[str], placement: Placement, folder: str) -> Iterator[pa.Table]:
    """Sorts some rows at a time by place; yields each run, mapped from the disk."""
    done = 0
    for number, rows in enumerate(_large_tables(paths)):
        window = slice(done, done + len(rows))
        done += len(rows)
        shard, position = placement.shard[window], placement.position[window]
        order = np.lexsort((position, shard))
        order = order[np.searchsorted(shard[order], 0) :]  # Without those that go nowhere.
        placed = rows.take(pa.array(order))
        for name, column in (("shard", shard), ("position", position)):
            placed = placed.append_column(name, pa.array(column[order]))
        path = os.path.join(folder, f"{number}.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, _RUN_SCHEMA) as writer:
            writer.write_table(placed.cast(_RUN_SCHEMA).combine_chunks())
        yield read_rows(path)


def _group_shards(ends: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Cuts consecutive shards into groups of about this many rows: first shard and end.

    Args:
      ends: int64 [shards], how many rows the shards up to each one have together.
      rows: least number for a group; the last one may have fewer.
    """
    first, done = 0, 0
    while first < len(ends):
        end = min(int(np.searchsorted(ends, done + rows)) + 1, len(ends))
        yield first, end
        first, done = end, int(ends[end - 1])


def _merge(runs: Sequence[pa.Table], first: int, end: int) -> tuple[pa.RecordBatch, np.ndarray]:
    """The rows of some consecutive shards, in order, and the shard of each (int32 [rows])."""
    parts = []
    for run in runs:
        a, b = np.searchsorted(run["shard"].to_numpy(), [first, end])
        parts.append(run.slice(a, b - a))
    rows = pa.concat_tables(parts)
    shard = rows["shard"].to_numpy()
    order = np.lexsort((rows["position"].to_numpy(), shard))
    (batch,) = rows.select(ROW_SCHEMA.names).take(pa.array(order)).combine_chunks().to_batches()
    return batch, shard[order]


def _large_tables(paths: Sequence[str]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for path in paths:
        held.append(read_rows(path))
        if sum(map(len, held)) >= ROWS_AT_ONCE:
            yield pa.concat_tables(held).combine_chunks()
            held = []
    if held:
        yield pa.concat_tables(held).combine_chunks()
