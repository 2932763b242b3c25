import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.dataset.index_file import INDEX_SCHEMA, read_shard_rows, scan_index

pytestmark = pytest.mark.unit


@pytest.fixture
def data_dir(tmp_path):
    """An index of two splits, whose second shard's rows are not in order."""
    rows = [("train", 0, 0), ("train", 1, 90), ("train", 1, 0), ("eval", 1, 0)]
    with pq.ParquetWriter(tmp_path / "index.parquet", INDEX_SCHEMA) as writer:
        for number, (split, shard, offset) in enumerate(rows):
            row = {"split": split, "shard": shard, "record_offset": offset, "label": str(number)}
            writer.write_table(pa.Table.from_pylist([row], INDEX_SCHEMA))
    return str(tmp_path)


def test_columns_are_read_part_by_part_in_order(data_dir):
    read = pa.concat_tables(scan_index(data_dir, ["label", "shard"]))
    assert read.to_pydict() == {"label": ["0", "1", "2", "3"], "shard": [0, 1, 1, 1]}


def test_a_shards_rows_are_in_the_order_of_its_records(data_dir):
    rows = read_shard_rows(data_dir, "train", 1)
    assert rows.schema == INDEX_SCHEMA
    assert rows["label"].to_pylist() == ["2", "1"]
