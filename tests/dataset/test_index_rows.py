import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset import index_rows
from image_pipeline.components.dataset.index_file import INDEX_SCHEMA, read_shard_rows, scan_index
from image_pipeline.components.dataset.index_rows import (
    ROW,
    RowFile,
    compute_checks,
    key_of,
    make_rows,
    seal_shard,
)
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.unit


SHA256 = "0123456789abcdef" + "0" * 48


def make_table(records=2, **columns):
    known = {
        "record_offset": [12 * number for number in range(records)],
        "record_length": [2**33] * records,
        "payload_length": [5] * records,
        "height": [3] * records,
        "width": [4] * records,
        "channels": [255] * records,
        "record_id": [f"{number:032x}" for number in range(records)],
        "label": ["dog", "cat"] * (records // 2),
        "format": ["jpeg", "raw_float16"] * (records // 2),
    }
    return pa.table(known | columns)


def made(records=2):
    return seal_shard(make_rows(make_table(records), ["cat", "dog"]), SHA256)


def test_a_row_has_56_bytes_which_say_what_the_columns_say():
    first, second = made()
    assert (ROW.itemsize, ROW["check"].str) == (56, "<u4")
    names = ("offset", "length", "image_length", "height", "width", "channels", "is_raw", "label")
    assert [second[name] for name in names] == [12, 2**33, 5, 3, 4, 255, True, 0]
    assert (first["label"], first["is_raw"], bytes(second["record_id"])) == (
        1,
        False,
        bytes(15) + b"\1",
    )
    assert second.tobytes()[:16] == (12).to_bytes(8, "little") + (2**33).to_bytes(8, "little")


def test_check_words_are_those_of_the_format():
    """As docs/format.md says, in Python's numbers."""
    rows = made()
    words = np.frombuffer(rows[1].tobytes(), "<u4").tolist()
    words[-1] = 1  # Its number in the shard.
    sums = sum(word * int(key) for word, key in zip(words, index_rows._KEYS, strict=True))
    expected = ((sums + 0x0123456789ABCDEF) % 2**64) >> 32
    assert rows["check"].tolist() == [rows["check"][0], expected]
    assert index_rows._KEYS[[0, -1]].tolist() == [13878215301362151913, 12618671844805155511]


def test_checks_depend_on_the_number_and_the_shard():
    rows = made()
    key = np.full(2, key_of(SHA256), np.uint64)
    numbers = np.arange(2)
    assert (compute_checks(rows, numbers, key) == rows["check"]).all()
    assert (compute_checks(rows, numbers + 1, key) != rows["check"]).all()
    assert (compute_checks(rows, numbers, key ^ np.uint64(2**40)) != rows["check"]).all()


def test_many_rows_are_checked_as_each_alone():
    rows = made(2 * index_rows._BLOCK + 2)
    last = slice(len(rows) - 1, None)
    key = np.full(1, key_of(SHA256), np.uint64)
    assert compute_checks(rows[last], np.array([len(rows) - 1]), key) == rows["check"][last]


def test_what_is_no_class_has_no_number():
    table = make_table(label=["cow", "cat"])
    assert make_rows(table, ["cat", "dog"])["label"].tolist() == [-1, 0]


@pytest.mark.parametrize(
    ("record_id", "problem"), [("zz" * 16, "Non-hexadecimal"), ("00", "must have 32 digits")]
)
def test_an_id_must_be_hexadecimal(record_id, problem):
    with pytest.raises(ValueError, match=problem):
        make_rows(make_table(record_id=[record_id] * 2), ["cat", "dog"])


def test_no_rows_are_no_bytes():
    assert seal_shard(make_rows(make_table().slice(0, 0), []), SHA256).tobytes() == b""


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """50,000 rows, their file in a store, and the ranges that are asked of it."""
    rows = made(50_000)
    path, asked = tmp_path / "index.rows", []
    rows.tofile(path)

    def read_file(uri, start=0, end=None):
        asked.append((start, end))
        return path.read_bytes()[start:end]

    monkeypatch.setattr(index_rows, "_COPIED_BYTES", 0)
    monkeypatch.setattr(files, "stat_file", lambda uri: (path.stat().st_size, 0))
    monkeypatch.setattr(files, "read_file", read_file)
    return rows, RowFile("s3://bucket/data", len(rows)), asked, path


def test_rows_of_a_store_are_ranges_of_what_is_close(stored):
    rows, file, asked, _ = stored
    close = index_rows._JOINED_ROWS
    places = np.array([49_999, 7, 7 + close, 7, 20_000, 9])
    found = file.read(places)
    assert found.tobytes() == rows[places].tobytes()
    spans = [(7, 8 + close), (20_000, 20_001), (49_999, 50_000)]
    assert sorted(asked) == [(start * 56, end * 56) for start, end in spans]
    asked.clear()
    assert file.read(np.array([7, 8 + close])).tobytes() == rows[[7, 8 + close]].tobytes()
    assert sorted(asked) == [(7 * 56, 8 * 56), ((8 + close) * 56, (9 + close) * 56)]


def test_a_scan_of_a_store_is_one_request_a_block(stored):
    rows, file, asked, _ = stored
    assert file.read(np.arange(100, 40_100)).tobytes() == rows[100:40_100].tobytes()
    assert asked == [(5_600, 40_100 * 56)]


def test_a_file_that_is_cut_while_it_is_read_is_named(stored):
    _, file, _, path = stored
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"data/index.rows' was changed .*shorter than it was"):
        file.read(np.array([3, 49_999]))


def test_a_local_file_is_mapped_but_where_it_is_scanned(tmp_path, monkeypatch):
    rows, asked = made(40_000), []
    rows.tofile(tmp_path / "index.rows")
    file, read_file = RowFile(str(tmp_path), len(rows)), files.read_file
    monkeypatch.setattr(files, "read_file", lambda *span: asked.append(span) or read_file(*span))
    for places in (np.array([39_999, 0, 0]), np.arange(30_000)[::-1], np.arange(100)):
        assert file.read(places).tobytes() == rows[places].tobytes()
    assert asked == []
    assert file.read(np.arange(10, 30_000)).tobytes() == rows[10:30_000].tobytes()
    assert asked == [(str(tmp_path / "index.rows"), 560, 30_000 * 56)]


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
