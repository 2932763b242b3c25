"""Which files are read, and that parts of our own give what TensorFlow gives."""

import gzip
import io
import pathlib
import re
import threading

import obstore
import pytest
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.dataset.tfrecord import frame
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.feeding import shard_files
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.records import open_records
from image_pipeline.components.feeding.shard_files import (
    bytes_ahead,
    count_records,
    find_reader,
    match_files,
)
from image_pipeline.components.stores import remote
from image_pipeline.components.stores.objects import Address, ObjectStore
from image_pipeline.components.views.options import ViewOptions
from tests import shards

pytestmark = pytest.mark.unit

RECORDS = 20


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Twenty records in four shards."""
    folder = tmp_path_factory.mktemp("data") / "Split-train"
    return shards.write_shards(folder, shards.make_examples(RECORDS), 4)


def test_count_records_counts_all_shards(pattern):
    assert count_records(match_files([pattern])) == RECORDS


def test_files_are_sorted_and_listed_once(pattern):
    paths = match_files([pattern, pattern.replace("*", "00003*")])
    assert [path[-14:-9] for path in paths] == ["00000", "00001", "00002", "00003"]


def test_a_pattern_without_files_is_an_error(pattern):
    with pytest.raises(UserError, match=r"no file matches \['/nowhere/\*'\]; check the path"):
        match_files([pattern, "/nowhere/*"])
    with pytest.raises(UserError, match="no file matches none"):
        match_files([])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("s3://bkt/data/Split-*/*", ["data/Split-eval/0", "data/Split-train/0"]),
        ("s3://bkt/*/Split-eval/?", ["data/Split-eval/0"]),
        ("s3://bkt/data/Split-[et]*/0", ["data/Split-eval/0", "data/Split-train/0"]),
        ("s3://bkt/data/Split-train/0", ["data/Split-train/0"]),
        ("s3://bkt/to*", ["top"]),
    ],
)
def test_any_part_of_a_pattern_may_have_wildcards(monkeypatch, pattern, found):
    store = ObjectStore(Address("s3", "s3://bkt/", "bkt"), obstore.store.MemoryStore())
    monkeypatch.setattr(remote, "_find_store", lambda uri: store)
    for name in ("data/Split-eval/0", "data/Split-train/0", "data/other/0", "top"):
        store.put(f"s3://bkt/{name}", io.BytesIO(b"data"))
    assert match_files([pattern]) == [f"s3://bkt/{name}" for name in found]


def test_gzipped_shards_are_counted_by_their_ending(pattern, tmp_path):
    for path in sorted(pathlib.Path(pattern).parent.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert count_records(match_files([str(tmp_path / "*.gz")])) == RECORDS


def test_a_compressed_file_is_not_read_in_parts():
    with pytest.raises(UserError, match=r"cannot read s3://bucket/a\.gz, .*copy the data set"):
        find_reader(["s3://bucket/a.gz"])


def test_what_only_tensorflow_reads_is_where_it_can():
    for path in ("/data/file", "gs://bucket/file"):
        files.check_known_to_tensorflow(path, "the graph")
    with pytest.raises(UserError, match=r"^the graph must be .* TensorFlow .* az://box/file; use"):
        files.check_known_to_tensorflow("az://box/file", "the graph")
    served = FeedingOptions(data_service="grpc://localhost:1")
    with pytest.raises(UserError, match=r"^with feeding.data_service, the data set must be on a"):
        open_records(["s3://bucket/file"], ViewOptions(), served, Passes(mode="train"))


@pytest.fixture
def in_parts(monkeypatch):
    """TensorFlow knows no store; reads a file by path, 100 bytes at once."""
    monkeypatch.setattr(files, "is_known_to_tensorflow", lambda path: False)
    monkeypatch.setattr(shard_files, "_PART_BYTES", 100)
    return lambda path: list(find_reader([path])(tf.constant(path)).as_numpy_iterator())


@pytest.mark.parametrize("sizes", [[], [0], [84], [85], [10, 300, 0, 70, 14, 400], [1] * 40])
def test_parts_give_what_tensorflow_gives(in_parts, tmp_path, sizes):
    records = [bytes([number]) * size for number, size in enumerate(sizes)]
    path = tmp_path / "file"
    path.write_bytes(b"".join(map(frame, records)))
    assert in_parts(str(path)) == records
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == records


def test_the_next_part_is_read_before_it_is_asked_for(monkeypatch, in_parts, tmp_path):
    path, second = tmp_path / "file", threading.Event()
    path.write_bytes(b"".join(frame(bytes([number]) * 80) for number in range(3)))
    read = files.read_file

    def note(name, start=0, end=None):
        if start:
            second.set()
        return read(name, start, end)

    monkeypatch.setattr(files, "read_file", note)
    records = iter(find_reader([str(path)])(tf.constant(str(path))).as_numpy_iterator())
    assert next(records) == bytes([0]) * 80
    assert second.wait(120)


def test_what_is_held_of_a_file_is_known(monkeypatch):
    assert bytes_ahead(["/data/a", "gs://bucket/a"]) == 256 * 1024
    assert bytes_ahead(["s3://bucket/a"]) == 3 * 16 * 2**20
    assert bytes_ahead(["s3://bucket/a"] * 16) == 3 * 4 * 2**20


def test_a_large_file_is_asked_for_side_by_side_and_a_small_one_once(
    monkeypatch, in_parts, tmp_path
):
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(frame(bytes(50)))
    records = [bytes([number]) * 84 for number in range(30)]  # 100 bytes each with their frame
    large.write_bytes(b"".join(map(frame, records)))
    asked, together = [], threading.Barrier(8)
    read = files.read_file

    def note(name, start=0, end=None):
        asked.append((start, end))
        if 800 <= start < 1600:
            together.wait(120)  # Breaks unless eight wait at a time.
        return read(name, start, end)

    monkeypatch.setattr(files, "read_file", note)
    assert in_parts(str(small)) == [bytes(50)]
    assert asked == [(0, 100)]
    asked.clear()
    assert in_parts(str(large)) == records
    assert sorted(asked) == [(start, start + 100) for start in range(0, 3000, 100)]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-1], "damaged after byte 66 .*the file ends within a record"),
        (lambda content: content[:70], "damaged after byte 66 .*the file ends within a record"),
        (lambda content: content[:-5] + b"x" + content[-4:], "its data or the data's checksum"),
        (lambda content: content[:68] + b"x" + content[69:], "its length field is damaged"),
    ],
)
def test_a_damaged_file_is_named(in_parts, tmp_path, damage, message):
    path = tmp_path / "file"
    path.write_bytes(damage(frame(b"a" * 50) + frame(b"b" * 200)))
    with pytest.raises(Exception) as caught:
        in_parts(str(path))
    error = find_user_error(caught.value)
    assert str(path) in str(error)
    assert re.search(message, str(error))
