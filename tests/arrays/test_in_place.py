"""References to images that stay where they are: exact, and refused when their file changed."""

import os

import numpy as np
import pytest

from image_pipeline.components.arrays.in_place import check_file, fetch, make_reference, refers
from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import ImageRef
from tests.array_files import FORMATS, IMAGES, WRITERS, write_files, write_npz, write_zarr
from tests.arrays.test_array_tables import open_table

pytestmark = pytest.mark.unit


def _refer(table):
    """Each row's reference and what it is to give."""
    for ref in table.list():
        data = table.read(ref, 10**6)
        yield make_reference(ref, data, data[-90:] if data[:1] == b"\x93" else data)


@pytest.mark.parametrize("name", FORMATS)
def test_pixels_are_those_of_the_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    table = open_table(WRITERS[name](tmp_path / name, {"x": IMAGES}).name)
    references = list(_refer(table))
    monkeypatch.chdir("/")
    for reference, pixels in zip(references, IMAGES, strict=True):
        assert refers(b"record" + reference)
        found = fetch(StoredImage(memoryview(reference), 6, 5, 3, is_raw=True))
        assert bytes(found.encoded) == pixels.tobytes()
        assert found[1:] == (6, 5, 3, True, *found[5:])


@pytest.mark.e2e
def test_files_are_given_whole(tmp_path):
    contents = [b"\xff\xd8\xff" + bytes(row) for row in range(5)]
    table = open_table(write_files(tmp_path / "a.h5", "jpeg", contents))
    found = [fetch(StoredImage(each, 1, 1, 3, is_raw=False)).encoded for each in _refer(table)]
    assert [bytes(each) for each in found] == contents


def test_pixels_are_never_taken_for_a_reference(tmp_path):
    (reference, *_) = _refer(open_table(write_npz(tmp_path / "a.npz", {"x": IMAGES})))
    width = len(reference)
    image = StoredImage(reference, 1, width, 1, is_raw=True)
    assert fetch(image) is image
    path = write_npz(tmp_path / "b.npz", {"x": np.zeros((1, 1, width, 1), np.uint8)})
    table = open_table(path)
    (ref,) = table.list()
    for length in range(width - 9, width + 9):
        made = make_reference(ref, bytes(length + 9), bytes(length))
        assert len(made) != length


def test_a_file_that_is_gone_or_was_changed_is_refused_at_any_time(tmp_path):
    path = write_npz(tmp_path / "a.npz", {"x": IMAGES})
    (reference, *_) = _refer(open_table(path))
    image = StoredImage(reference, 6, 5, 3, is_raw=True)
    assert check_file(image)
    assert not check_file(fetch(image))
    os.utime(path, ns=(0, 7))
    for look in (fetch, check_file):
        with pytest.raises(UserError, match=r"'.*a.npz' \(ingest.in_place\), which was changed"):
            look(image)
    path.unlink()
    for look in (fetch, check_file):
        with pytest.raises(
            UserError, match=r"gone or cannot be read \(No such file or directory\)"
        ):
            look(image)


@pytest.mark.e2e
def test_a_folder_is_looked_at_once(tmp_path):
    path = write_zarr(tmp_path / "a.zarr", {"x": IMAGES})
    reference, other, *_ = _refer(open_table(path))
    fetch(StoredImage(reference, 6, 5, 3, is_raw=True))
    os.utime(path / ".zgroup", ns=(0, 2**62))
    assert check_file(StoredImage(other, 6, 5, 3, is_raw=True))


def test_what_would_be_converted_is_refused(tmp_path):
    (ref, *_) = open_table(write_npz(tmp_path / "a.npz", {"x": IMAGES})).list()
    for encoded in (b"other", b""):
        with pytest.raises(BadImage, match="needs pixels as they are to be stored"):
            make_reference(ref, b"data", encoded)
    with pytest.raises(BadImage, match="needs images in a file of arrays or an archive"):
        make_reference(ImageRef("a.jpg", 4, 0), b"data", b"data")
    options = IngestOptions(in_place=True, prepare={"encoding": "raw", "resize": "none"})
    with pytest.raises(UserError, match="in_place is for files of arrays and archives"):
        complete_options(str(tmp_path), options)


@pytest.mark.parametrize("prepare", [{"encoding": "raw"}, {"resize": "none"}])
def test_options_that_convert_are_refused(prepare):
    with pytest.raises(ValueError, match=r"in_place needs prepare.resize=none and"):
        IngestOptions(in_place=True, prepare=prepare)
    kept = IngestOptions(in_place=True, prepare={"encoding": "raw", "resize": "none"})
    assert kept.stored_form()["in_place"] is True
    assert "in_place" not in IngestOptions().stored_form()
    assert "in_place" not in IngestOptions().to_json()
