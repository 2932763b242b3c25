import copy
import gc
import pathlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.stored import StoredRecords, take_image
from image_pipeline.components.dataset.tfrecord import read_records
from image_pipeline.components.errors import UserError
from tests.shards import flip_bit

pytestmark = pytest.mark.beam


def _read_all(paths):
    for path in paths:
        with open(path, "rb") as file:
            yield from read_records(file)


@pytest.mark.parametrize("verify", [False, True])
def test_every_record_is_read_in_any_order(train_shards, verify):
    expected = list(_read_all(train_shards))
    records = StoredRecords(read_index(train_shards))
    rows = np.random.default_rng(0).permutation(len(expected))
    assert [records.read(row, verify) for row in rows.tolist()] == [expected[row] for row in rows]


def test_the_image_of_a_row_is_that_of_its_records_features(train_shards):
    records = StoredRecords(read_index(train_shards))
    for row, data in enumerate(_read_all(train_shards)):
        image = records.read_image(row, verify=True)
        features = record.decode_example(data)
        assert image == take_image(features)
        assert bytes(image.encoded) == features[record.IMAGE]


def test_pixels_are_told_from_files():
    features = {record.IMAGE: b"abc", record.HEIGHT: 1, record.WIDTH: 3, record.CHANNELS: 1}
    assert take_image(features | {record.FORMAT: b"raw"}) == (b"abc", 1, 3, 1, True, "uint8")
    assert take_image(features | {record.FORMAT: b"png"}) == (b"abc", 1, 3, 1, False, "uint8")
    of_floats = take_image(features | {record.FORMAT: b"raw_float32"})
    assert of_floats == (b"abc", 1, 3, 1, True, "float32")


def test_threads_share_one_file(train_shards):
    expected = list(_read_all(train_shards))
    records = StoredRecords(read_index(train_shards), max_open=1)
    rows = np.random.default_rng(1).integers(0, len(expected), 2000).tolist()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(records.read, rows)) == [expected[row] for row in rows]
    assert len(records._files) == 1


def test_damage_is_found_where_asked_and_named(copied):
    index = read_index(copied)
    row = 4
    flip_bit(copied[0], int(index.offset[row]) + 40)
    records = StoredRecords(index)
    assert records.read(row) != b""
    with pytest.raises(UserError, match=rf"record 4 of {copied[0]} \(source .*\.png'\) is damaged"):
        records.read(row, verify=True)


def test_a_cut_shard_names_the_record(copied):
    index = read_index(copied)
    with open(copied[0], "r+b") as file:
        file.truncate(int(index.offset[3]) + 30)
    records = StoredRecords(index)
    assert record.IMAGE.encode() in records.read(2)
    with pytest.raises(UserError, match=r"record 3 of .* is damaged: the shard ends before it"):
        records.read(3)


def test_no_garbage_is_collected_while_a_record_is_named(copied):
    records = StoredRecords(read_index(copied))
    name = records.index.describe(0)
    collections, thresholds = [], gc.get_threshold()
    gc.callbacks.append(lambda phase, _: collections.append(phase))
    try:
        gc.set_threshold(50)
        assert records.index.describe(0) == name
        in_describe = len(collections)
        collections.clear()
        error = records.bad_record(0, "torn")
        in_bad_record = len(collections)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()
    assert str(error).startswith(f"{name} is damaged: torn;")
    assert in_bad_record == 0 < in_describe
    assert gc.isenabled()


def test_an_empty_shard_names_the_record(copied):
    index = read_index(copied)
    open(copied[0], "w").close()
    with pytest.raises(UserError, match=r"record 0 of .* is damaged: the shard ends before it"):
        StoredRecords(index).read(0)


def test_a_shard_that_is_gone(copied):
    index = read_index(copied)
    shutil.move(copied[0], f"{copied[0]}.old")
    with pytest.raises(
        UserError, match=r"Cannot read the shard .*; if it is gone or was changed, run ingest again"
    ):
        StoredRecords(index).read(0)


def test_a_data_set_that_was_replaced_gives_no_records_of_the_new_one(copied):
    root = pathlib.Path(copied[0]).parent.parent
    records, again = (StoredRecords(read_index(copied)) for _ in range(2))
    first = records.read(0, verify=True)
    shutil.copy(root / "manifest.json", root / "new")
    (root / "new").rename(root / "manifest.json")
    assert records.read(0, verify=True) == first  # Of the file that is open.
    with pytest.raises(
        UserError, match=f"^The data set '{root}' was replaced while it was read; s"
    ):
        again.read(0, verify=True)


@pytest.mark.parametrize("verify", [False, True])
def test_another_record_than_the_index_has_is_refused(copied, verify):
    """As where a new index has come with old shards, of records of the same size."""
    index = read_index(copied)
    first, second = index.locate(np.array([0, 1]))
    with pytest.raises(
        UserError,
        match=rf"record 0 of {copied[0]} .*is damaged: its shard has another record there than",
    ):
        StoredRecords(index).read(first._replace(record_id=second.record_id), verify)


def test_records_of_a_store_are_requests_for_what_they_take(train_shards, monkeypatch):
    index = read_index(train_shards)
    remote = copy.copy(index)
    remote.roots = tuple(f"s3://bucket{root}" for root in index.roots)
    remote.shard_paths = tuple(f"s3://bucket{path}" for path in index.shard_paths)
    asked = []

    def read_file(path, start, end):
        asked.append((path, start, end))
        with open(path.removeprefix("s3://bucket"), "rb") as file:
            file.seek(start)
            return file.read(end - start)

    monkeypatch.setattr(files, "read_file", read_file)
    rows = range(len(index))
    found = [StoredRecords(remote).read(row, verify=True) for row in rows]
    assert found == [StoredRecords(index).read(row) for row in rows]
    assert asked[-1] == (
        remote.shard_paths[index.shard[-1]],
        index.offset[-1],
        index.offset[-1] + index.length[-1] + 16,
    )
