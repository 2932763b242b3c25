"""The rows of every shard are its own, in their order, however many are held at a time."""

import numpy as np
import pyarrow as pa
import pytest

from image_pipeline.components.ingest import placed_rows, ranges
from image_pipeline.components.ingest.placed_rows import (
    SourceRows,
    read_placed_rows,
    write_placed_rows,
)
from image_pipeline.components.ingest.plan import NOWHERE, PLACE, Placement
from image_pipeline.components.ingest.prepared import ROW_SCHEMA
from image_pipeline.components.ingest.ranges import Ranges, select

pytestmark = pytest.mark.unit


def _write_rows(folder, rows, files):
    """So many rows in so many files; the paths tell their numbers."""
    paths = []
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        columns = [
            pa.array(
                [b"%d" % row for row in part] if field.name == "path" else [None] * len(part),
                field.type,
            )
            for field in ROW_SCHEMA
        ]
        path = str(folder / f"rows-{number}.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, ROW_SCHEMA) as writer:
            writer.write_table(pa.table(columns, schema=ROW_SCHEMA))
        paths.append(path)
    return paths


def _place(folder, rows, sizes, seed=0):
    """Deals rows out to shards of these sizes, in random order; those left over go nowhere."""
    order = np.random.default_rng(seed).permutation(rows)[: sum(sizes)]
    shard = np.repeat(np.arange(len(sizes)), sizes)
    position = np.concatenate([np.arange(size) for size in sizes])
    places = Ranges(str(folder), PLACE, rows)
    columns = {"copies": order, "conflicts": NOWHERE, "shard": shard, "position": position}
    places.add_by_number(select(order, PLACE, number=order, **columns), order)
    placement = Placement(places, None, (len(sizes) - 1, 1), np.cumsum(sizes), None)
    return placement, np.split(order, np.cumsum(sizes)[:-1])


@pytest.mark.parametrize("at_once", [7, 100, 10_000])
@pytest.mark.parametrize("batch_rows", [1, 10, 10_000])
@pytest.mark.parametrize("sizes", [[500, 1, 400], [3] * 300, [1, 0, 2, 900]])
def test_every_shard_reads_its_own_rows_in_order(tmp_path, monkeypatch, at_once, batch_rows, sizes):
    monkeypatch.setattr(placed_rows, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(placed_rows, "_BATCH_ROWS", batch_rows)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(ranges, "RANGE_ROWS", 3 * at_once // 2)
    sources = SourceRows(_write_rows(tmp_path, 1000, files=9))
    placement, expected = _place(scratch, 1000, sizes)
    target = str(tmp_path / "placed")
    spans = write_placed_rows(sources, placement, target, str(scratch))
    assert len(spans) == len(sizes)
    for span, rows in zip(spans, expected, strict=True):
        read = read_placed_rows(target, span)
        assert read.schema == ROW_SCHEMA
        assert [int(path) for path in read["path"].to_pylist()] == rows.tolist()


def test_rows_are_taken_by_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(placed_rows, "ROWS_AT_ONCE", 50)
    sources = SourceRows(_write_rows(tmp_path, 100, files=9))
    assert len(sources) == 100
    numbers = np.array([99, 0, 12, 12, 11])
    assert sources.take(numbers, ["path"]) == {n: {"path": b"%d" % n} for n in (0, 11, 12, 99)}
    tables = list(sources.tables())
    assert [(first, len(rows)) for first, rows in tables] == [(0, 56), (56, 44)]
    assert [path for _, rows in tables for path in rows["path"].to_pylist()] == [
        b"%d" % n for n in range(100)
    ]


def test_what_is_written_grows_with_the_rows_not_with_shards_and_passes(tmp_path, monkeypatch):
    """One record batch for each shard and pass was 1,798 bytes a row of 234,000 shards."""
    monkeypatch.setattr(placed_rows, "ROWS_AT_ONCE", 1000)
    rows = 10_000
    sources = SourceRows(_write_rows(tmp_path, rows, files=10))
    for shards in (10, 2500):
        placement, _ = _place(tmp_path, rows, [rows // shards] * shards)
        target = tmp_path / "placed"
        write_placed_rows(sources, placement, str(target), str(tmp_path))
        assert target.stat().st_size < 2 * 150 * rows  # As the rows themselves, 139 bytes each.
