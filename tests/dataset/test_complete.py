"""A data set of which one file is gone or cut is not complete; a copy is whole, or not there."""

import collections
import os
import re
import shutil

import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset import complete
from image_pipeline.components.dataset.complete import (
    check_shard_sizes,
    download_data_set,
    find_complete,
)
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import MANIFEST, name_shard
from image_pipeline.components.errors import UserError
from tests.dataset.listed import write_listed
from tests.object_store.runs import read_tree

pytestmark = pytest.mark.unit

Usage = collections.namedtuple("Usage", "free")


@pytest.fixture
def data(tmp_path):
    """A data set of three shards."""
    write_listed(f"{tmp_path}/data", {"train": [b"abc", b"de"], "eval": [b"f"]})
    assert find_complete(f"{tmp_path}/data") == read_manifest(f"{tmp_path}/data")
    return tmp_path / "data"


def _listed(data):
    return sorted(path for path in data.rglob("*") if path.is_file() and path.name != MANIFEST)


def test_each_file_counts(data):
    paths = _listed(data)
    assert len(paths) >= 4  # Three shards and the index.
    for path in paths:
        content = path.read_bytes()
        path.write_bytes(content + b"x")
        assert find_complete(str(data)) is None
        path.unlink()
        assert find_complete(str(data)) is None
        path.write_bytes(content)
    assert find_complete(str(data)) is not None


def test_without_a_manifest_or_with_a_damaged_one_it_is_not(data, tmp_path):
    (data / MANIFEST).write_bytes((data / MANIFEST).read_bytes()[:-9])
    assert find_complete(str(data)) is None
    (data / MANIFEST).unlink()
    assert find_complete(str(data)) is None
    assert find_complete(str(tmp_path / "none")) is None


def _check(data, splits=("train", "eval")):
    check_shard_sizes(str(data), read_manifest(str(data)), splits)


def _make_pipe(path):
    path.unlink()
    os.mkfifo(path)


def test_shards_of_the_right_size_pass(data):
    _check(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.write_bytes(b""), "0 bytes long, but its manifest says "),
        (_make_pipe, "0 bytes long, but its manifest says "),
        (lambda path: path.write_bytes(b"1234"), "4 bytes long, but its manifest says "),
    ],
    ids=["missing", "cut", "pipe", "longer"],
)
def test_the_first_other_shard_is_named(data, damage, said):
    shards = [data / shard.file for _, _, shard in read_manifest(str(data)).list_shards()]
    size = shards[1].stat().st_size
    damage(shards[1])
    shards[2].unlink()
    whole = said if said == "missing" else f"{said}{size:,}"
    with pytest.raises(UserError, match=re.escape(f"{shards[1]} is {whole}; restore it from")):
        _check(data)


def test_shards_of_other_splits_are_not_looked_at(data):
    (shard,) = (s for name, _, s in read_manifest(str(data)).list_shards() if name == "eval")
    (data / shard.file).unlink()
    _check(data, ["train"])
    with pytest.raises(UserError, match="is missing"):
        _check(data, ["eval"])


def test_a_store_that_does_not_answer_is_a_sentence(data, monkeypatch):
    def fails(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(files, "stat_file", fails)
    with pytest.raises(UserError, match=r"cannot be listed: .*Permission denied.*fix that"):
        _check(data)


def test_all_that_readers_need_is_copied_and_nothing_else(data, tmp_path):
    whole = read_tree(str(data))
    (data / "quarantine.jsonl").write_text("what no reader needs")
    download_data_set(str(data), f"{tmp_path}/copy")
    assert read_tree(f"{tmp_path}/copy") == whole


def test_what_is_complete_is_not_copied_again(data, tmp_path, monkeypatch):
    download_data_set(str(data), f"{tmp_path}/copy")
    monkeypatch.setattr(complete, "copy_file", None)
    download_data_set(str(data), f"{tmp_path}/copy")


def test_a_changed_shard_is_named_and_the_copy_is_not_complete(data, tmp_path):
    name = name_shard("train", 1, 2)
    (data / name).write_bytes(b"dE")
    with pytest.raises(UserError, match=rf"data/{name} was changed: the SHA-256 of its 2 bytes"):
        download_data_set(str(data), f"{tmp_path}/copy")
    assert not (tmp_path / "copy" / MANIFEST).exists()


def test_a_disk_without_room_is_told_before_anything_is_read(data, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10))  # 6 in shards, 5 of index.
    with pytest.raises(UserError, match=r"copy must have room for the 0\.00 GB of .*data, but its"):
        download_data_set(str(data), f"{tmp_path}/copy")
    assert list((tmp_path / "copy").iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(11))
    download_data_set(str(data), f"{tmp_path}/copy")
