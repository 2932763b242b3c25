"""A pointer in place of a data set names it, and whether it is still the same."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest

from image_pipeline.components.dataset.manifest import hash_manifest
from image_pipeline.components.dataset.paths import (
    MANIFEST,
    POINTER,
    check_all_known,
    group_by_root,
    in_split,
    match_path,
    name_copy,
    name_shard,
    number_paths,
    numbers_by_split,
    order_by_path,
    parse_path,
    parse_split,
)
from image_pipeline.components.dataset.pointer import follow_pointer, make_pointer, write_pointer
from image_pipeline.components.errors import UserError
from tests.dataset.listed import write_listed

pytestmark = pytest.mark.unit


def _path(root, split, shard):
    return f"{root}/Split-{split}/data_tfrecord-{shard:05d}-of-00008"


def test_the_names_in_a_data_sets_folder():
    assert name_shard("train", 7, 12) == "Split-train/data_tfrecord-00007-of-00012"
    assert in_split("eval") == "Split-eval/*"
    assert in_split("*", "SchemaDiff.pb") == "Split-*/SchemaDiff.pb"
    assert name_copy("ab12") == "quarantine/ab12"


def test_a_file_is_of_the_split_in_whose_folder_it_is():
    assert parse_split(f"gs://bucket/Split-old/data/{name_shard('train', 0, 1)}") == "train"
    assert parse_split("/anomalies/7/Split-eval/SchemaDiff.pb") == "eval"


def test_a_shards_name_is_read_as_it_was_written():
    match = parse_path(f"data/{name_shard('a_b', 123456, 200000)}")
    assert (match["root"], match["split"], int(match["shard"])) == ("data", "a_b", 123456)


def test_a_path_names_its_data_set_split_and_shard():
    match = parse_path(_path("gs://bucket/data", "train", 7))
    assert match.groupdict() == {"root": "gs://bucket/data", "split": "train", "shard": "00007"}


def test_other_files_have_another_way_in():
    assert match_path("records.tfrecord") is None
    with pytest.raises(UserError, match=r"got 'records\.tfrecord'; read other files by input_fn"):
        parse_path("records.tfrecord")


def test_shards_are_sorted_by_data_set_and_path():
    paths = [_path("b", "train", 1), _path("a", "train", 2), _path("a", "eval", 3)]
    assert group_by_root(paths) == [("a", (paths[2], paths[1])), ("b", (paths[0],))]


def test_a_version_that_was_replaced_is_sorted_as_its_data_set():
    """Several data sets stay in the order in which a model was fed them, though one was updated."""
    roots = ["a/.versions/2", "a", "a-b/.versions/1", "a-b"]
    sorted_roots = ["a", "a/.versions/2", "a-b", "a-b/.versions/1"]
    paths = [_path(root, "train", 0) for root in roots]
    assert [root for root, _ in group_by_root(paths)] == sorted_roots


def test_each_row_has_the_number_of_its_path_or_none():
    paths = [_path("a", "eval", 0), _path("a", "train", 3), _path("a", "train", 1)]
    numbers = numbers_by_split(paths)
    assert numbers == {"eval": {0: 0}, "train": {3: 1, 1: 2}}
    split = pa.array(["train", "train", "eval", "eval", "train"])
    shard = pa.array([1, 3, 0, 1, 2])
    numbered = number_paths(split, shard, numbers)
    assert numbered.dtype == np.int32
    assert numbered.tolist() == [2, 1, 0, -1, -1]


def test_rows_are_sorted_by_path_and_keep_their_places_in_it():
    assert order_by_path(np.array([0, 0, 2])) == slice(None)
    assert order_by_path(np.array([1, 0, 1, 0])).tolist() == [1, 3, 0, 2]


def test_a_path_without_a_row_is_named():
    paths = [_path("a", "train", shard) for shard in (0, 1)]
    check_all_known(np.array([1, 2]), paths, "a")
    with pytest.raises(UserError, match=r"the index of a must list .*00001-of-00008; run") as error:
        check_all_known(np.array([2, 0]), paths, "a")
    assert paths[1] in str(error.value)


@pytest.fixture
def data(tmp_path):
    """A data set of two splits, and a folder with a pointer to it."""
    manifest = write_listed(f"{tmp_path}/data", {"train": [b"abc", b"de"], "eval": [b"f"]})
    write_pointer(f"{tmp_path}/artifact", make_pointer(f"{tmp_path}/data", manifest, span=7))
    return tmp_path / "data"


def test_it_says_where_the_data_set_is_and_which_one(data, tmp_path):
    assert json.loads((tmp_path / "artifact" / POINTER).read_text()) == {
        "uri": str(data),
        "manifest_sha256": hash_manifest(str(data)),
        "records": 6,
        "bytes": 6,
        "span": 7,
    }
    pointer = follow_pointer(str(tmp_path / "artifact"))
    assert pointer is not None and (pointer.uri, pointer.version) == (str(data), None)


def test_a_data_set_itself_is_no_pointer(data):
    assert follow_pointer(str(data)) is None


def test_a_deleted_data_set_is_named(data, tmp_path):
    shutil.rmtree(data)
    with pytest.raises(UserError, match=f"data set '{data}' was deleted.*run ingest again"):
        follow_pointer(str(tmp_path / "artifact"))


def test_a_replaced_data_set_is_named_with_both_checksums(data, tmp_path):
    before = hash_manifest(str(data))
    manifest = data / MANIFEST
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    after = hash_manifest(str(data))
    with pytest.raises(UserError, match=f"'{data}' was replaced.* be {before}, got {after};"):
        follow_pointer(str(tmp_path / "artifact"))


@pytest.mark.parametrize("content", ["", '{"uri": 7}', "[]"])
def test_a_damaged_pointer_is_named(data, tmp_path, content):
    (tmp_path / "artifact" / POINTER).write_text(content)
    with pytest.raises(UserError, match=f"'{tmp_path}/artifact/{POINTER}' is damaged"):
        follow_pointer(str(tmp_path / "artifact"))
