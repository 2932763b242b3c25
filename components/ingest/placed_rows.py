"""The rows of all sources: read in the listing's order, and written in the order of the shards."""

import dataclasses
import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.ingest.plan import Placement, read_places
from image_pipeline.components.ingest.prepared import ROW_SCHEMA, read_rows

ROWS_AT_ONCE = 250_000
# Rows of a record batch, which is filled up with further shards' rows: 60 kB, which a task reads as
# fast as a few rows.
_BATCH_ROWS = 256
_PLACED_SCHEMA = ROW_SCHEMA.append(pa.field("shard", pa.int64())).append(
    pa.field("position", pa.int64())
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


class SourceRows:
    """The rows of all sources in the listing's order: files of prepared rows on this machine."""

    def __init__(self, paths: Sequence[str]):
        """Takes the files, in the listing's order."""
        self._paths = paths
        self._edges = np.cumsum([0, *(len(read_rows(path)) for path in paths)])

    def __len__(self) -> int:
        """How many there are."""
        return int(self._edges[-1])

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """A quarter of a million rows at a time, or as many as a file has, and the first's number.

        They are mapped into memory, not copied.
        """
        pending: list[pa.Table] = []
        first = 0
        for path, end in zip(self._paths, self._edges[1:].tolist(), strict=True):
            pending.append(read_rows(path))
            if end - first >= ROWS_AT_ONCE or end == len(self):
                yield first, pa.concat_tables(pending)
                pending, first = [], end

    def take(self, numbers: np.ndarray, columns: Sequence[str]) -> dict[int, dict]:
        """Some columns of rows, by their numbers."""
        numbers = np.unique(numbers)
        taken: dict[int, dict] = {}
        edges = np.searchsorted(numbers, self._edges)
        for file in np.flatnonzero(np.diff(edges)).tolist():
            own = numbers[edges[file] : edges[file + 1]]
            within = pa.array(own - self._edges[file])
            rows = read_rows(self._paths[file]).select(columns).take(within)
            taken |= zip(own.tolist(), rows.to_pylist(), strict=True)
        return taken


def write_placed_rows(
    sources: SourceRows, placement: Placement, target: str, scratch_dir: str
) -> list[RowSpan]:
    """Writes the rows of all shards into one file, in bounded memory and linear time.

    The rows come in the listing's order. A quarter of a million at a time is spread over files on
    the local disk, each for consecutive shards with as many rows, which then are sorted. In the
    target, a shard's rows are consecutive in one Arrow record batch, which small shards share: a
    batch costs 2 kB, more than the rows of a small shard.

    Args:
      sources: all prepared rows.
      placement: where each row goes.
      target: the file.
      scratch_dir: a local folder with room for the same size again.

    Returns:
      For each shard, where its rows are.
    """
    groups = list(group_by_rows(placement.shard_ends, ROWS_AT_ONCE))
    folder = tempfile.mkdtemp(dir=scratch_dir)
    paths = [os.path.join(folder, str(number)) for number in range(len(groups))]
    # First each row, with its place, to the file of its group of shards.
    for first, rows in sources.tables():
        places = read_places(placement.places, first, first + len(rows))
        order = np.argsort(places["shard"], kind="stable")
        edges = np.searchsorted(places["shard"][order], [0, *(end for _, end in groups)]).tolist()
        rows = rows.combine_chunks()
        for path, edge in zip(paths, itertools.pairwise(edges), strict=True):
            own = order[slice(*edge)]
            placed = rows.take(pa.array(own))
            for name in ("shard", "position"):
                placed = placed.append_column(name, pa.array(places[name][own]))
            with open(path, "ab") as scratch:
                for batch in placed.cast(_PLACED_SCHEMA).to_batches():
                    scratch.write(batch.serialize())
    # Then each group in order.
    spans: list[RowSpan] = []
    with files.write_atomically(target) as file:
        for (first, end), path in zip(groups, paths, strict=True):
            with pa.OSFile(path) as spread:
                messages = pa.ipc.MessageReader.open_stream(spread)
                batches = [pa.ipc.read_record_batch(each, _PLACED_SCHEMA) for each in messages]
            os.remove(path)
            placed = pa.Table.from_batches(batches, _PLACED_SCHEMA)
            shard = placed["shard"].to_numpy()
            order = np.lexsort((placed["position"].to_numpy(), shard))
            sorted_rows = placed.select(ROW_SCHEMA.names).take(pa.array(order)).combine_chunks()
            (one,) = sorted_rows.to_batches()
            edges = np.searchsorted(shard[order], np.arange(first, end + 1)).tolist()
            for a, b in group_by_rows(np.array(edges[1:]), _BATCH_ROWS):
                start = file.tell()
                file.write(one.slice(edges[a], edges[b] - edges[a]).serialize())
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


def group_by_rows(ends: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Cuts consecutive shards, or what else has rows, into groups: first one and end of each.

    Args:
      ends: int64 [shards], how many rows the shards up to each one have together.
      rows: least number for a group; the last one may have fewer.
    """
    first, done = 0, 0
    while first < len(ends):
        end = min(int(np.searchsorted(ends, done + rows)) + 1, len(ends))
        yield first, end
        first, done = end, int(ends[end - 1])
