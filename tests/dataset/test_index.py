import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import is_indexed, read_index, read_table
from image_pipeline.components.dataset.manifest import seal
from image_pipeline.components.dataset.tfrecord import read_records
from image_pipeline.components.errors import UserError
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.shards import flip_bit

pytestmark = pytest.mark.beam


def _records(path):
    with open(path, "rb") as file:
        return [record.decode_example(data) for data in read_records(file)]


def test_the_rows_are_the_records_in_the_order_of_the_shards(train_shards):
    index = read_index(list(reversed(train_shards)))
    records = [values for path in train_shards for values in _records(path)]
    assert index.shard_paths == tuple(train_shards)
    assert [i.tobytes().hex().encode() for i in index.record_id] == [
        values[record.SOURCE_ID] for values in records
    ]
    assert [index.classes[code].encode() for code in index.label] == [
        values[record.LABEL] for values in records
    ]
    assert index.classes == ("cat", "dog")
    assert len(index) == len(records)


def test_splits_may_be_read_together_and_shards_alone(data_set, train_shards):
    every = sorted(map(str, data_set.glob("Split-*/*")))
    assert len(read_index(every)) == 30
    assert len(read_index(train_shards[1:2])) == len(_records(train_shards[1]))


def test_a_row_is_named_by_shard_number_and_source(train_shards):
    index = read_index(train_shards)
    first = len(_records(train_shards[0]))
    source = _records(train_shards[1])[2][record.FILENAME].decode()
    assert index.describe(first + 2) == f"record 2 of {train_shards[1]} (source {source!r})"


def test_rows_are_taken_in_any_order_and_again(train_shards):
    index = read_index(train_shards)
    rows = np.array([len(index) - 1, 0, 3, 0], np.int64)
    taken = index.take(rows)
    for name, values in taken._asdict().items():
        column = getattr(index, name)
        assert values.dtype == column.dtype
        assert values.tolist() == column[rows].tolist()
    assert taken.record_id.shape == (4, 16)
    assert len(index.take(rows[:0]).shard) == 0


def test_some_numbers_a_shard_are_held_or_the_rows_of_an_older_data_set(train_shards, older):
    assert read_index(train_shards).nbytes == 3 * (3 * 8 + 4) + 4 * 8
    _, paths = older
    assert read_index(paths).nbytes == 3 * (3 * 8 + 4) + 4 * 8 + len(read_index(paths)) * 56


def test_a_data_set_of_an_older_version_has_the_same_index(train_shards, older):
    _, paths = older
    rows = np.arange(len(read_index(paths)))
    for chosen in (slice(None), slice(1, 2), slice(None, None, 2)):
        index, expected = read_index(paths[chosen]), read_index(train_shards[chosen])
        assert (index.classes, index.dtype) == (expected.classes, expected.dtype)
        rows = np.random.default_rng(0).permutation(len(index))
        for found, known in zip(index.take(rows), expected.take(rows), strict=True):
            assert found.dtype == known.dtype
            np.testing.assert_array_equal(found, known)


def test_what_is_indexed(data_set, train_shards, tmp_path):
    assert is_indexed(train_shards)
    assert not is_indexed([str(tmp_path / "Split-train" / "data_tfrecord-00000-of-00001")])
    assert not is_indexed([f"{path}.gz" for path in train_shards])
    assert not is_indexed(["records.tfrecord"])


def test_a_shard_that_the_index_does_not_know(data_set):
    unknown = f"{data_set}/Split-train/data_tfrecord-00007-of-00008"
    with pytest.raises(UserError, match=r"has no record of .*00007-of-00008; run `image-pipeline"):
        read_index([unknown])


def test_an_index_in_another_order_of_shards(data_set, train_shards, tmp_path):
    table = pq.read_table(data_set / "index.parquet")
    folder = tmp_path / "moved"
    paths = [path.replace(str(data_set), str(folder)) for path in train_shards]
    folder.mkdir()
    starts = [i for i in range(1, len(table)) if table["shard"][i] != table["shard"][i - 1]]
    cut = starts[0]
    halves = [table.slice(cut), table.slice(0, cut)]
    pq.write_table(pa.concat_tables(halves), folder / "index.parquet")
    moved = read_table(paths, ["record_id"])["record_id"]
    assert moved.equals(read_table(train_shards, ["record_id"])["record_id"])


def test_small_row_groups_make_no_difference(data_set, train_shards, tmp_path):
    paths = [path.replace(str(data_set), str(tmp_path)) for path in train_shards]
    table = pq.read_table(data_set / "index.parquet")
    pq.write_table(table, tmp_path / "index.parquet", row_group_size=2)
    index, expected = read_index(paths), read_index(train_shards)
    assert index.classes == expected.classes
    for name in ("shard", "offset", "length", "record_id", "label"):
        found = getattr(index, name)
        assert found.dtype == getattr(expected, name).dtype
        assert found.tolist() == getattr(expected, name).tolist()


def test_several_data_sets_are_read_as_one(data_set, train_shards, tmp_path):
    ingest(write_folder(tmp_path / "images", ("ant", "dog"), 6), tmp_path / "other", shards=2)
    others = sorted(map(str, (tmp_path / "other").glob("Split-train/*")))
    first, second = read_index(train_shards), read_index(others)
    both = read_index([*others, *train_shards])
    parts = [first, second] if first.roots < second.roots else [second, first]
    assert both.roots == parts[0].roots + parts[1].roots
    assert both.classes == ("ant", "cat", "dog")
    assert both.data_set.tolist() == [0] * len(parts[0]) + [1] * len(parts[1])
    names = [part.classes[code] for part in parts for code in part.label]
    assert [both.classes[code] for code in both.label] == names
    rows = [part.describe(row) for part in parts for row in range(len(part))]
    assert [both.describe(row) for row in range(len(both))] == rows
    ids = [value for part in parts for value in part.record_id.tolist()]
    assert both.record_id.tolist() == ids


@pytest.fixture
def copied(data_set, tmp_path):
    shutil.copytree(data_set, tmp_path / "copy")
    paths = sorted(map(str, (tmp_path / "copy" / "Split-train").iterdir()))
    return tmp_path / "copy", paths


@pytest.fixture
def older(copied):
    """A copy whose index has one form only, as older versions wrote it."""
    folder, paths = copied
    (folder / "index.rows").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"]["index.rows"]
    (folder / "manifest.json").write_text(json.dumps(seal(manifest)))
    return folder, paths


def test_any_flip_of_the_index_is_one_named_error(older):
    folder, paths = older
    path = folder / "index.parquet"
    content = path.read_bytes()
    for place in range(0, len(content), len(content) // 36):
        flip_bit(str(path), place)
        for read in (read_index, lambda paths: read_table(paths, ["source"])):
            with pytest.raises(UserError, match=r"index.parquet' was changed .*image-pipeline ver"):
                read(paths)
        path.write_bytes(content)
    assert len(read_index(paths)) == len(read_table(paths, ["source"]))


def test_any_flip_of_a_row_is_one_named_error_where_it_is_read(copied):
    folder, paths = copied
    path = folder / "index.rows"
    content = path.read_bytes()
    every = read_index(sorted(map(str, folder.glob("Split-*/*"))))
    # Rows are in the order of the splits: train is first.
    index, rows = read_index(paths), len(content) // 56
    assert rows == len(every) == 30
    for place in range(0, len(index) * 56, 5):
        for bit in range(8):
            flip_bit(str(path), place, bit)
            with pytest.raises(UserError, match=r"index.rows' was changed .*image-pipeline verify"):
                index.take(np.array([place // 56]))
            assert len(index.take(np.array([(place // 56 + 1) % len(index)])).shard) == 1
            flip_bit(str(path), place, bit)
    assert path.read_bytes() == content


def test_rows_of_another_place_or_data_set_are_found(copied, tmp_path):
    folder, paths = copied
    path, index = folder / "index.rows", read_index(paths)
    content = path.read_bytes()
    rows = np.arange(2)
    with open(path, "r+b") as file:
        file.write(content[56:112] + content[:56])
    with pytest.raises(UserError, match=r"its row of record 0 of .*00000-of-00003 is not as it"):
        index.take(rows)
    ingest(write_folder(tmp_path / "images", per_class=15), tmp_path / "other", shards=3, seed=1)
    path.write_bytes((tmp_path / "other" / "index.rows").read_bytes())
    with pytest.raises(UserError, match="its row of record 0 of"):
        read_index(paths).take(rows)


def test_rows_that_are_missing_or_cut_are_one_named_error(copied):
    folder, paths = copied
    os.truncate(folder / "index.rows", 1679)
    with pytest.raises(UserError, match=r"index.rows' was .*it has 1,679 bytes, not 56 for each"):
        read_index(paths)
    (folder / "index.rows").unlink()
    with pytest.raises(UserError, match=r"index.rows' was changed .*No such file"):
        read_index(paths)


def test_a_changed_manifest_is_one_named_error(copied):
    folder, paths = copied
    path = folder / "manifest.json"
    content = path.read_bytes()
    flip_bit(str(path), content.index(b'"records"') + 12)
    with pytest.raises(UserError, match=r"manifest.json' was changed since ingest wrote it"):
        read_index(paths)


def test_without_a_manifest_a_damaged_index_is_named_too(copied):
    folder, paths = copied
    (folder / "manifest.json").unlink()
    assert len(read_index(paths)) > 0
    os.truncate(folder / "index.parquet", 100)
    with pytest.raises(UserError, match=r"index.parquet' was changed"):
        read_index(paths)
