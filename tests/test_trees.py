"""Folders that TensorFlow reads or writes, in a store that notes all that is done."""

import os

import pytest

from image_pipeline.components import files, trees
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import remote
from tests.noting_store import NotingStore

pytestmark = pytest.mark.unit

URI = "s3://models/7"


@pytest.fixture
def store(monkeypatch):
    made = NotingStore(URI)
    monkeypatch.setattr(remote, "_find_store", lambda uri: made)
    monkeypatch.setattr(trees, "_THREADS", 1)
    return made


def _fill(folder, *names):
    for name in names:
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "w") as file:
            file.write(name)


@pytest.mark.parametrize("folder", ["models/7", "/models/7", "gs://models/7"])
def test_what_tensorflow_knows_is_used_in_place(store, folder):
    assert trees.fetch_tree(folder) == folder
    with trees.write_tree(folder, last="a") as written:
        assert written == folder
    assert store.done == []


def test_a_folder_is_whole_when_it_can_be_found(store):
    with trees.write_tree(URI, last="saved_model.pb") as local:
        _fill(local, "variables/a", "saved_model.pb", "zz")
    assert store.done == [("put", "variables/a"), ("put", "zz"), ("put", "saved_model.pb")]
    assert store.held[f"{URI}/variables/a"] == b"variables/a"
    assert not os.path.exists(local)


def test_a_folder_is_replaced_so_that_it_is_never_half_of_each(store):
    store.held = {f"{URI}/{name}": b"old" for name in ("last", "kept", "gone")}
    with trees.write_tree(URI, last="last") as local:
        _fill(local, "last", "kept")
    assert store.done == [("delete", "last"), ("put", "kept"), ("delete", "gone"), ("put", "last")]
    assert store.held == {f"{URI}/last": b"last", f"{URI}/kept": b"kept"}


def test_a_folder_is_copied_without_what_is_hidden_and_what_only_stands_for_folders(
    store, tmp_path
):
    store.held = {f"{URI}/{name}": b"1" for name in ("", "a", "b/", "b/c", ".hidden/d")}
    trees.copy_tree(URI, str(tmp_path / "copy"))
    assert trees.list_names(str(tmp_path / "copy")) == ["a", "b/c"]
    assert trees.list_names(str(tmp_path / "none")) == []


def test_nothing_is_sent_after_an_error(store):
    with pytest.raises(UserError), trees.write_tree(URI, last="last") as local:
        _fill(local, "last")
        raise UserError("not today")
    assert store.done == []


def test_what_is_not_there_is_named(store):
    with pytest.raises(UserError, match=f"^{URI} must hold .* but is empty; check"):
        trees.fetch_tree(URI)


def test_a_copy_is_made_once_until_something_changes(store):
    store.held = {f"{URI}/a": b"first", f"{URI}/b/c": b"second", f"{URI}/.hidden": b"large"}
    copy = trees.fetch_tree(URI)
    assert files.read_file(f"{copy}/a") == b"first"
    assert files.read_file(f"{copy}/b/c") == b"second"
    assert trees.fetch_tree(URI) == copy
    assert [name for _, name in store.done] == ["a", "b/c"]
    store.held[f"{URI}/a"] = b"changed"
    assert files.read_file(f"{trees.fetch_tree(URI)}/a") == b"changed"
    assert files.read_file(f"{copy}/a") == b"first"
