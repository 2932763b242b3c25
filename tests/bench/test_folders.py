import argparse

import pytest

from benchmarks.bench import folders

pytestmark = [pytest.mark.unit, pytest.mark.wide]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.JPG").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "notes.txt").write_bytes(b"none")
    return tmp_path


def test_photos_are_found_at_any_depth(folder):
    assert folders.photos(str(folder)) == str(folder)
    assert [path.name for path in folders.list_photos(folder)] == ["a.JPG"]


@pytest.mark.parametrize("name", ["nope", "notes.txt"])
def test_what_is_no_folder_is_refused(folder, name):
    with pytest.raises(argparse.ArgumentTypeError, match="is no folder"):
        folders.photos(str(folder / name))


def test_what_only_looks_like_a_photo_is_none(tmp_path):
    (tmp_path / "b.jpeg").write_bytes(b"no photo")
    (tmp_path / "c.jpg").mkdir()
    with pytest.raises(argparse.ArgumentTypeError, match="has no photo"):
        folders.photos(str(tmp_path))


def test_classes_and_splits_are_looked_for(folder):
    assert folders.classes(str(folder)) == str(folder)
    with pytest.raises(argparse.ArgumentTypeError, match="train' is no folder"):
        folders.splits(str(folder))
    (folder / "empty").mkdir()
    with pytest.raises(argparse.ArgumentTypeError, match="no files in class folders"):
        folders.classes(str(folder / "empty"))


def test_kept_data_of_something_else_ends_the_program(tmp_path):
    folders.claim(tmp_path / "kept", {"records": 1})
    folders.claim(tmp_path / "kept", {"records": 1})
    with pytest.raises(SystemExit, match="delete it, or give another folder as --keep"):
        folders.claim(tmp_path / "kept", {"records": 2})
