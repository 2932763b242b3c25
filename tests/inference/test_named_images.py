"""The images that a person names."""

import zipfile

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.inference.named_images import (
    check_listed,
    fingerprint_images,
    read_images,
)
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.reading import SkippedFile
from image_pipeline.components.stores import remote
from tests.drawings import draw, encode_png
from tests.noting_store import NotingStore

pytestmark = pytest.mark.unit

FILES = [encode_png(draw(seed)) for seed in range(3)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    for number, file in enumerate(FILES):
        (tmp_path / "photos" / "cat" / f"{number}.png").write_bytes(file)
    (tmp_path / "photos" / "notes.md").write_text("# Notes\n")
    return tmp_path


def read(*named, **prepare):
    options = IngestOptions(prepare=prepare) if prepare else IngestOptions()
    return list(read_images(named, options))


def test_files_folders_patterns_and_archives_come_in_the_order_in_which_they_are_named(folder):
    with zipfile.ZipFile("more.zip", "w") as archive:
        archive.writestr("dog/7.png", FILES[1])
    found = read("photos/cat/2.png", "photos", "more.zip", "photos/*/[01].png")
    names = [each.name for each in found]
    inside = ["photos/cat/0.png", "photos/cat/1.png", "photos/cat/2.png", "photos/notes.md"]
    assert names == ["photos/cat/2.png", *inside, "more.zip/dog/7.png", *inside[:2]]
    data = [each.data for each in found]
    assert data[:4] == [FILES[2], *FILES] and data[5:] == [FILES[1], *FILES[:2]]
    assert isinstance(data[4], SkippedFile) and data[4].kind == "text"
    assert {each.pixels for each in found if isinstance(each.data, bytes)} == {80}


def test_a_file_that_is_named_itself_is_an_error_where_a_folders_is_skipped(folder):
    (named,) = read("photos/notes.md")
    assert isinstance(named.data, BadImage) and named.data.reason == "text"


def test_a_link_that_is_named_is_followed(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "a.png"
    elsewhere.write_bytes(FILES[0])
    (folder / "link.png").symlink_to(elsewhere)
    (found,) = read("link.png")
    assert (found.name, found.data) == ("link.png", FILES[0])


def test_a_missing_file_is_told_in_its_place(folder):
    missing, there = read("photos/9.png", "photos/cat/0.png")
    assert str(missing.data) == "missing_file: there is no such file"
    assert there.data == FILES[0]


def test_what_would_fill_the_memory_is_not_handed_on(folder):
    (found,) = read("photos/cat/0.png", max_pixels=79)
    assert str(found.data) == "too_many_pixels: 80 pixels; ingest.prepare.max_pixels=79"
    (found,) = read("photos/cat/0.png", max_file_bytes=20)
    assert isinstance(found.data, BadImage) and found.data.reason == "too_large_file"


def test_what_cannot_be_listed_is_refused(folder):
    with pytest.raises(UserError, match="No file matches 'photos/x\\*'; correct the pattern"):
        read("photos/x*")
    with pytest.raises(UserError, match="is a generator, whose images are only known once"):
        read("generator:module:function")


def test_a_file_or_folder_that_a_store_has_not_is_told_in_its_place(folder, monkeypatch):
    store = NotingStore("s3://bucket")
    store.held["s3://bucket/in/0.png"] = FILES[0]
    monkeypatch.setattr(remote, "_find_store", lambda uri: store)
    missing, empty, there = read("s3://bucket/in/9.png", "s3://bucket/none", "s3://bucket/in")
    assert [missing.name, empty.name] == ["s3://bucket/in/9.png", "s3://bucket/none"]
    assert {str(missing.data), str(empty.data)} == {"missing_file: there is no such file"}
    assert (there.name, there.data) == ("s3://bucket/in/0.png", FILES[0])


def test_the_fingerprint_changes_with_the_images_of_whatever_is_named(folder):
    named = ("photos", "photos/cat/*.png", "photos/cat/0.png")
    before = [fingerprint_images(each, IngestOptions()) for each in named]
    assert before == [fingerprint_images(each, IngestOptions()) for each in named]
    (folder / "photos" / "cat" / "0.png").write_bytes(FILES[1] + b"more")
    after = [fingerprint_images(each, IngestOptions()) for each in named]
    assert all(old != new for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("named", ["empty", "gone.png", "s3://bucket/none"])
def test_what_holds_nothing_is_refused_where_it_is_checked(folder, monkeypatch, named):
    (folder / "empty").mkdir()
    store = NotingStore("s3://bucket")
    monkeypatch.setattr(remote, "_find_store", lambda uri: store)
    check_listed("photos", IngestOptions())
    with pytest.raises(UserError, match=f"There are no files in '{named}'; name others"):
        check_listed(named, IngestOptions())
