import shutil

import pyarrow.parquet as pq
import pytest

from image_pipeline.browse.index_rows import IndexRows
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from tests.shards import flip_bit

pytestmark = pytest.mark.beam


@pytest.fixture
def rows(browsed):
    return IndexRows(str(browsed.data), read_manifest(str(browsed.data)))


def test_rows_are_found_by_their_number_in_any_order(browsed, rows):
    table = pq.read_table(browsed.data / "index.parquet").to_pylist()
    assert pq.read_metadata(browsed.data / "index.parquet").num_row_groups == 4
    assert len(rows) == 24 and rows.read(range(24)) == table
    assert rows.read([23, 0, 11, 0]) == [table[number] for number in (23, 0, 11, 0)]
    assert rows.read([5], ["source", "width"]) == [
        {name: table[5][name] for name in ("source", "width")}
    ]
    assert rows.read([]) == []
    scanned = [row for part in rows.scan(["source"]) for row in part["source"].to_pylist()]
    assert scanned == [row["source"] for row in table]
    assert rows.columns == list(table[0])


def test_a_rows_record_is_that_of_the_shard(browsed, rows):
    shards = sorted(map(str, browsed.data.glob("Split-*/*")))
    stored = StoredRecords(read_index(shards))
    expected = {stored.read(number) for number in range(24)}
    assert {rows.read_record(row) for row in rows.read(range(24))} == expected
    for row in rows.read(range(24)):
        assert row["source"].encode() in rows.read_record(row)


def test_what_is_damaged_is_named(browsed, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(browsed.data, data)
    rows = IndexRows(str(data), read_manifest(str(data)))
    (row,) = rows.read([0])
    flip_bit(rows.find_shard(row), row["record_offset"] + 20)
    with pytest.raises(UserError, match=f"the record of '{row['source']}' in .* is damaged"):
        rows.read_record(row)
    (data / "index.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="was changed since ingest wrote it"):
        IndexRows(str(data), read_manifest(str(data)))


@pytest.mark.parametrize("replace", [True, False])
def test_a_data_set_that_is_replaced_meanwhile_is_not_read_on(browsed, tmp_path, replace):
    data = tmp_path / "data"
    shutil.copytree(browsed.data, data)
    rows = IndexRows(str(data), read_manifest(str(data)))
    rows.read([3])
    table = pq.read_table(data / "index.parquet")
    (data / "index.parquet").unlink()
    if replace:
        pq.write_table(table.take(list(range(23, -1, -1))), data / "index.parquet")
    for read in (lambda: rows.read([3]), lambda: list(rows.scan(["source"]))):
        with pytest.raises(UserError, match="has been replaced or removed meanwhile"):
            read()
