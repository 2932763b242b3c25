import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.sources.reading import find_other_kind, names_other_kind
from tests.images import zoo

pytestmark = pytest.mark.unit


def _zip():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("cat/1.jpg", b"x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        ("README", b"About these images.\n", "text"),
        ("cat/notes.txt", "Größe \N{CAT FACE}".encode(), "text"),
        ("labels.csv", "a;Größe\n".encode("latin-1"), "text"),
        ("noise.csv", b"\0\1\2 who knows", "other_file"),
        ("manual", b"%PDF-1.7 ...", "other_file"),
        ("utf16.txt", "Größe".encode("utf-16"), "text"),
        ("cut.txt", ("x" * 4095 + "ö").encode()[:4096], "text"),
        ("prices", b"BM and GIF8 are how some images begin", "text"),
        ("cat/images.zip", _zip(), "archive"),
        ("images", _zip(), "archive"),
        ("all.tar", bytes(257) + b"ustar\x0000" + bytes(200), "archive"),
        ("all.tar.gz", b"\x1f\x8b\x08\0" + bytes(9), "archive"),
        ("cat/Thumbs.db", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "system_file"),
        ("Desktop.ini", b"[.ShellClassInfo]\r\n", "system_file"),
        ("film.mp4", b"\0\0\0\x18ftypmp42" + bytes(9), "other_file"),
        ("empty.txt", b"", "other_file"),
        ("labels.npy", zoo.save_array(np.zeros(9, np.int64)), "other_file"),
        ("all.npy", zoo.save_array(np.zeros((9, 2, 2, 3), np.uint8))[:4096], "other_file"),
    ],
)
def test_what_is_no_image_by_name_and_content(path, data, kind):
    assert find_other_kind(path, data)[0] == kind


def _encode(image_format):
    file = io.BytesIO()
    Image.new("RGB", (9, 9)).save(file, image_format)
    return file.getvalue()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("cat/1.jpg", b"<html>Not found</html>"),
        ("cat/1.PNG", b""),
        ("cat/1.jpeg", _zip()),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("drawing.xml", b"<?xml version='1.0'?>\n<svg/>"),
        ("old.ppm", b"P3\n1 1\n255\n0 0 0\n"),
        ("n01440764_10026", b"\0\1\2 who knows"),
        ("n01440764_10027", b""),
        ("cat/1.npy", zoo.save_array(zoo.GRAY)[:4096]),
        ("cat/2.npy", zoo.save_array(zoo.GRAY)[:60]),
        ("cat/3.npy", b"\0\1\2 who knows"),
        *[("photo.txt", _encode(each)) for each in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")],
        *[("photo", _encode(each)) for each in ("PPM", "ICO", "AVIF", "JPEG2000")],
    ],
)
def test_images_and_what_was_meant_as_one_are_not_skipped(path, data):
    assert find_other_kind(path, data) is None


def test_a_name_alone_may_tell():
    assert names_other_kind("cat/Notes.TXT") and names_other_kind("Thumbs.db")
    assert not names_other_kind("cat/1.jpg") and not names_other_kind("n01440764_10026")
