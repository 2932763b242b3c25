"""A downloaded data set is the one in the store, whole, or there is none."""

import collections
import shutil

import pytest

from image_pipeline.components.dataset import download
from image_pipeline.components.dataset.download import download_data_set
from image_pipeline.components.dataset.paths import MANIFEST, name_shard
from image_pipeline.components.errors import UserError
from tests.dataset.listed import write_listed
from tests.object_store.runs import read_tree

pytestmark = pytest.mark.unit

SHARDS = {"train": [b"abc", b"de"], "eval": [b"f"]}
Usage = collections.namedtuple("Usage", "free")


@pytest.fixture
def data(tmp_path):
    write_listed(f"{tmp_path}/data", SHARDS)
    return tmp_path / "data"


def test_all_that_readers_need_is_copied_and_nothing_else(data, tmp_path):
    whole = read_tree(str(data))
    (data / "quarantine.jsonl").write_text("what no reader needs")
    download_data_set(str(data), f"{tmp_path}/copy")
    assert read_tree(f"{tmp_path}/copy") == whole


def test_what_is_complete_is_not_copied_again(data, tmp_path, monkeypatch):
    download_data_set(str(data), f"{tmp_path}/copy")
    monkeypatch.setattr(download, "copy_file", None)
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
