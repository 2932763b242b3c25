"""Ranges of bytes, plain or packed, are read; and ahead, where that saves unpacking."""

import pytest

from image_pipeline.components.archives import byte_ranges
from image_pipeline.components.archives.byte_ranges import read_ahead
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import Location

pytestmark = pytest.mark.unit


def test_a_file_that_no_cache_holds_stays_open_while_it_is_read(tmp_path, monkeypatch):
    """As that of the slower of two threads."""
    (tmp_path / "a.bin").write_bytes(b"0123456789")
    monkeypatch.setattr(byte_ranges, "_open", byte_ranges._open.__wrapped__)
    place = Location(str(tmp_path / "a.bin"), "bytes", 2, 5)
    assert byte_ranges.read_plain(ImageRef("x", 5, 0, location=place), 5) == b"23456"


class Recorded:
    """Notes what is read of it."""

    root = "photos.tar.gz"

    def __init__(self):
        self.read_paths = []

    def read(self, ref, most_bytes):
        self.read_paths.append(ref.path)
        if ref.path == "damaged":
            raise BadImage("corrupt", "it is cut")
        if ref.path == "lost":
            raise FileNotFoundError(ref.path)
        return ref.path.encode()[:most_bytes]


def refer(path, start, kind="gzip", file="photos.tar.gz", **others):
    return ImageRef(path, len(path), 0, location=Location(file, kind, start), **others)


def test_what_goes_back_is_read_in_the_order_of_the_file():
    mask = refer("mask", 4)
    refs = [
        refer("late", 9),
        refer("early", 1, mask=mask),
        refer("damaged", 5),
        refer("lost", 3),
        refer("other", 2, file="b.tar.gz"),
        refer("far too large", 0),
        refer("a pipe", 0, problem="not_a_file"),
        refer("plain", 0, "bytes"),
    ]
    source = Recorded()
    ahead = read_ahead(refs, source, 9)
    expected = ["other", "early", "lost", "mask", "damaged", "late"]  # By file, then by place.
    assert source.read_paths == expected
    assert ahead.root == "photos.tar.gz"
    assert ahead.read(refs[0], 9) == b"late" and ahead.read(refs[0], 2) == b"la"
    assert ahead.read(mask, 9) == b"mask"
    with pytest.raises(BadImage, match="it is cut"):
        ahead.read(refs[2], 9)
    with pytest.raises(FileNotFoundError):
        ahead.read(refs[3], 9)
    assert source.read_paths == expected
    assert ahead.read(refs[5], 3) == b"far" and ahead.read(refs[7], 9) == b"plain"
    assert source.read_paths == [*expected, "far too large", "plain"]


def test_what_lies_in_the_order_of_names_is_read_when_it_is_wanted():
    source = Recorded()
    refs = [refer("a", 1), refer("b", 0, file="b.tar.gz"), refer("c", 7), refer("d", 0, "zip")]
    assert read_ahead(refs, source, 9) is source and not source.read_paths
