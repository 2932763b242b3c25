"""Every shard's rows lie in the file once, in order, however they came and however small it is."""

import numpy as np
import pyarrow as pa
import pytest

from image_pipeline.components.ingest import placed_rows
from image_pipeline.components.ingest.placed_rows import read_placed_rows, write_placed_rows
from image_pipeline.components.ingest.plan import NOWHERE, Placement
from image_pipeline.components.ingest.prepared_rows import ROW_SCHEMA

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


def _place(rows, sizes, seed=0):
    """Deals rows out to shards of these sizes, in random order; those left over go nowhere."""
    order = np.random.default_rng(seed).permutation(rows).astype(np.int32)
    shard = np.full(rows, NOWHERE, np.int32)
    position = np.full(rows, NOWHERE, np.int32)
    shard[order[: sum(sizes)]] = np.repeat(np.arange(len(sizes)), sizes)
    position[order[: sum(sizes)]] = np.concatenate([np.arange(size) for size in sizes])
    nothing = np.zeros(0)
    split_shards = (len(sizes) - 1, 1)
    return (
        Placement(shard, position, *[nothing] * 5, split_shards),
        np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1]),
    )


@pytest.mark.parametrize("at_once", [7, 100, 10_000])
@pytest.mark.parametrize("batch_rows", [1, 10, 10_000])
@pytest.mark.parametrize("sizes", [[500, 1, 400], [3] * 300, [1, 0, 2, 900]])
def test_every_shard_reads_its_own_rows_in_order(tmp_path, monkeypatch, at_once, batch_rows, sizes):
    monkeypatch.setattr(placed_rows, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(placed_rows, "_BATCH_ROWS", batch_rows)
    paths = _write_rows(tmp_path, 1000, files=9)
    placement, expected = _place(1000, sizes)
    target = str(tmp_path / "placed")
    spans = write_placed_rows(paths, placement, target, str(tmp_path))
    assert len(spans) == len(sizes)
    for span, rows in zip(spans, expected, strict=True):
        read = read_placed_rows(target, span)
        assert read.schema == ROW_SCHEMA
        assert [int(path) for path in read["path"].to_pylist()] == rows.tolist()
    assert {path.name for path in tmp_path.iterdir()} == {
        "placed",
        *(path.rpartition("/")[2] for path in paths),
    }


def test_what_is_written_grows_with_the_rows_not_with_shards_and_passes(tmp_path, monkeypatch):
    """One record batch for each shard and pass was 1,798 bytes a row of 234,000 shards."""
    monkeypatch.setattr(placed_rows, "ROWS_AT_ONCE", 1000)
    rows = 10_000
    paths = _write_rows(tmp_path, rows, files=10)
    for shards in (10, 2500):
        placement, _ = _place(rows, [rows // shards] * shards)
        target = tmp_path / "placed"
        write_placed_rows(paths, placement, str(target))
        assert target.stat().st_size < 2 * 150 * rows  # As the rows themselves, 139 bytes each.
