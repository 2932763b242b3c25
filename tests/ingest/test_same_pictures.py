"""Which files are the same pictures: by their bytes, by what is stored, and by their look."""

import hashlib

import cv2
import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.same_pictures import Pictures
from tests.drawings import draw, draw_smooth, encode_png, write_folder
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


def find(folder, named, near=False, **options):
    ingest(folder / "images", folder / "out", **options)
    found = Pictures(str(folder / "out")).find(named, near)
    return {each.path: (each.why, each.became) for each in found}


def test_copies_are_found_over_what_is_stored_as_the_same(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    Image.fromarray(draw(1)).save(images / "cat" / "same.bmp")
    for name in ("same.bmp", "001.png"):
        copy = images / "dog" / f"copy of {name}"
        copy.write_bytes((images / "cat" / name).read_bytes())
    keep = {"conflicting_labels": "keep", "duplicates": "keep_first"}
    found = find(tmp_path, ["dog/copy of same.bmp"], **keep)
    assert found == {
        "dog/copy of same.bmp": ("named", "duplicate"),
        "cat/001.png": ("the same bytes", "record"),
        "cat/same.bmp": ("the same bytes", "record"),
        "dog/copy of 001.png": ("the same bytes", "duplicate"),
    }


def test_copies_that_are_written_or_in_conflict_are_found(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    (images / "cat" / "copy.png").write_bytes((images / "cat" / "001.png").read_bytes())
    found = find(tmp_path, ["cat/001.png"], duplicates="keep_all")
    assert found["cat/copy.png"] == ("the same bytes", "record") and len(found) == 2
    (images / "dog" / "copy.png").write_bytes((images / "cat" / "001.png").read_bytes())
    found = find(tmp_path, ["dog/copy.png"], max_bad_fraction=0.9)
    assert {became for _, became in found.values()} == {"quarantined"} and len(found) == 3


@pytest.mark.parametrize("bits, count", [(None, 3), (0, 2)])
def test_what_looks_alike_is_found_with_its_copies(tmp_path, bits, count):
    images = write_folder(tmp_path / "images", per_class=3)
    smooth = draw_smooth(1)
    # Their hashes differ in no bit, and in two.
    bright = np.clip(smooth.astype(int) + 12, 0, 255).astype(np.uint8)
    small = cv2.resize(smooth, (96, 72))
    for name, pixels in {"a": smooth, "b": bright, "c": small}.items():
        (images / "cat" / f"{name}.png").write_bytes(encode_png(pixels))
    (images / "dog" / "b.png").write_bytes(encode_png(bright))
    (images / "cat" / "other.png").write_bytes(encode_png(draw_smooth(2)))
    given = {"near_duplicates": bits, "conflicting_labels": "keep"}
    found = find(tmp_path, ["cat/a.png"], True, **given)
    alike = [path for path, (why, _) in found.items() if why == "looks alike"]
    assert alike == [f"cat/{name}.png" for name in "bc"[: count - 1]]
    assert found["cat/a.png"][0] == "named" and found["dog/b.png"] == (
        "the same bytes",
        "duplicate",
    )
    assert len(found) == count + 1


def test_a_file_of_other_bytes_is_refused(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    (tmp_path / "same").write_bytes((images / "dog" / "002.png").read_bytes())
    assert find(tmp_path, [str(tmp_path / "same")]) == {"dog/002.png": ("the same bytes", "record")}
    (tmp_path / "same").write_bytes(encode_png(draw(55)))
    with pytest.raises(UserError, match="no picture of the bytes of"):
        find(tmp_path, [str(tmp_path / "same")])
    with pytest.raises(UserError, match=r"called 'dog/02\.png'; did you mean dog/002\.png"):
        find(tmp_path, ["dog/02.png"])


def test_looks_of_other_pixels_are_refused(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    deep = {"prepare": {"encoding": "raw", "channels": 3}}
    assert find(tmp_path, ["cat/001.png"], **deep).keys() == {"cat/001.png"}
    with pytest.raises(UserError, match=r"8-bit gray or RGB .*; leave --near out"):
        find(tmp_path, ["cat/001.png"], True, **deep)
    assert hashlib.sha256((images / "cat" / "001.png").read_bytes()).hexdigest() in (
        Pictures(str(tmp_path / "out")).all["cat/001.png"].hashes
    )
