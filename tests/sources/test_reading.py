"""Sources are read only where reading ends: no pipe, no device, nothing outside the folder."""

import errno
import io
import os
import threading
import zipfile

import numpy as np
import pytest
from PIL import Image

from image_pipeline.components import files, progress
from image_pipeline.components.images.prepare import BadImage
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.reading import (
    SkippedFile,
    find_other_kind,
    names_other_kind,
    try_read,
)
from image_pipeline.components.sources.references import ImageRef
from tests.images import zoo

pytestmark = pytest.mark.unit

OPTIONS = IngestOptions()


def _read(ref, folder, options):
    return try_read(ref, Folder(folder, options.follow_links), options.prepare.max_file_bytes)


def _read_within(seconds, ref, folder, options=OPTIONS):
    """What `try_read` gives; a read that does not end fails the test instead of holding it up."""
    found = []
    thread = threading.Thread(
        target=lambda: found.append(_read(ref, str(folder), options)), daemon=True
    )
    thread.start()
    thread.join(seconds)
    assert found, f"reading {ref.path} has not ended within {seconds} s"
    return found[0]


def test_a_pipe_that_took_a_files_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.jpg")
    read = _read_within(120, ImageRef("x.jpg", 10, 0), tmp_path)
    assert isinstance(read, BadImage) and read.reason == "not_a_file"


def test_a_file_that_has_no_data_now_is_not_waited_for(tmp_path, monkeypatch):
    """So does a kernel's log, which passes for a regular file, when all of it was read."""
    (tmp_path / "x.jpg").write_bytes(b"x")

    def wait(descriptor, count):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(files.os, "read", wait)
    read = _read(ImageRef("x.jpg", 1, 0), str(tmp_path), OPTIONS)
    assert isinstance(read, BadImage) and read.reason == "not_a_file"


def test_a_device_is_not_opened(tmp_path, monkeypatch):
    os.symlink("/dev/null", tmp_path / "x.jpg")
    monkeypatch.setattr(files.os, "open", lambda *_: pytest.fail("it was opened"))
    follow = IngestOptions(follow_links=True)
    read = _read(ImageRef("x.jpg", 0, 0), str(tmp_path), follow)
    assert isinstance(read, BadImage) and read.reason == "not_a_file"


def test_a_file_that_grows_without_end_is_too_large(tmp_path):
    (tmp_path / "x.jpg").write_bytes(bytes(5000))
    options = IngestOptions(prepare={"max_file_bytes": 999})
    read = _read(ImageRef("x.jpg", 10, 0), str(tmp_path), options)
    assert isinstance(read, BadImage) and read.reason == "too_large_file"
    larger = IngestOptions(prepare={"max_file_bytes": 5000})
    assert _read(ImageRef("x.jpg", 10, 0), str(tmp_path), larger) == bytes(5000)


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_link_that_was_turned_outwards_after_the_listing_is_not_read(tmp_path, is_followed):
    (tmp_path / "images").mkdir()
    (tmp_path / "secret").write_bytes(b"\xff\xd8 secret")
    os.symlink(tmp_path / "secret", tmp_path / "images" / "x.jpg")
    options = IngestOptions(follow_links=is_followed)
    read = _read(ImageRef("x.jpg", 8, 0), str(tmp_path / "images"), options)
    if is_followed:
        assert read == b"\xff\xd8 secret"
    else:
        assert isinstance(read, BadImage) and read.reason == "outside"
        assert "ingest.follow_links=true" in read.message


def test_what_is_no_image_is_skipped(tmp_path):
    (tmp_path / "README").write_text("About these images.")
    read = _read(ImageRef("README", 19, 0), str(tmp_path), OPTIONS)
    assert isinstance(read, SkippedFile) and read.kind == "text"
    alias = _read(ImageRef("b", 0, 0, "listed_before"), str(tmp_path), OPTIONS)
    assert isinstance(alias, SkippedFile) and "another name" in alias.message


def test_what_is_read_is_named_for_the_progress(tmp_path, monkeypatch):
    (tmp_path / "x.jpg").write_bytes(b"x")
    seen, read_file = [], files.read_regular_file

    def look(*args):
        seen.append(progress.look_slow(0))
        return read_file(*args)

    monkeypatch.setattr(files, "read_regular_file", look)
    _read(ImageRef("x.jpg", 1, 0), str(tmp_path), OPTIONS)
    ((what, seconds),) = seen
    assert what == "reading x.jpg" and seconds >= 0
    assert progress.look_slow(0) is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.EIO, "unreadable"), (errno.EACCES, "unreadable"), (errno.EMFILE, None), (12, None)],
)
def test_what_the_machine_lacks_costs_no_row(tmp_path, monkeypatch, code, reason):
    (tmp_path / "a.png").write_bytes(b"x")

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "read_regular_file", fail)
    ref = ImageRef("a.png", 1, 0)
    if reason is None:
        with pytest.raises(OSError, match=os.strerror(code)):
            _read(ref, str(tmp_path), OPTIONS)
    else:
        found = _read(ref, str(tmp_path), OPTIONS)
        assert isinstance(found, BadImage) and found.reason == reason


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
