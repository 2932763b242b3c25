"""Ranges of bytes, plain or packed, are read; and ahead, where that saves unpacking."""

import gzip
import os
import zlib

import pytest

from image_pipeline.components.archives import byte_ranges, file_bytes
from image_pipeline.components.archives.byte_ranges import read_ahead
from image_pipeline.components.archives.file_bytes import FileBytes, open_packed
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


@pytest.mark.parametrize("start", [-1, 2**63 - 1, 2**63, 2**64, 10])
def test_places_that_cannot_be_have_no_bytes(tmp_path, start):
    (tmp_path / "a").write_bytes(b"0123456789")
    file = FileBytes(str(tmp_path / "a"))
    assert file.read_some(start, 3) == b""
    with pytest.raises(BadImage, match="ends within it"):
        file.read(start, 3)


def test_bytes_may_be_fewer_at_the_end_only_where_that_is_asked_for(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    file = FileBytes(str(tmp_path / "a"))
    assert file.read_some(8, 5) == b"89" and file.read(8, 2) == b"89"
    with pytest.raises(BadImage, match="ends within it"):
        file.read(8, 3)


@pytest.fixture
def opened(monkeypatch):
    """The names of files as they are opened; none is open before."""
    names, open_ = [], file_bytes._open
    monkeypatch.setattr(file_bytes, "_KEPT", file_bytes._Kept())

    def note(path, *arguments):
        names.append(os.path.basename(path))
        return open_(path, *arguments)

    monkeypatch.setattr(file_bytes, "_open", note)
    return names


def _write(folder, count):
    paths = []
    for number in range(count):
        paths.append(str(folder / f"{number:03d}.gz"))
        (folder / paths[-1]).write_bytes(gzip.compress(b"content %d" % number))
    return paths


def test_many_small_files_stay_open(tmp_path, opened):
    paths = _write(tmp_path, 40)
    for _ in range(3):
        found = [open_packed(path, "gzip", 7).pread(99, 8) for path in paths]
        assert found == [b"%d" % number for number in range(40)]
    assert opened == [f"{number:03d}.gz" for number in range(40)]


def test_those_that_were_not_read_for_long_make_room(tmp_path, opened, monkeypatch):
    each_bytes = file_bytes._PACKED_BYTES + file_bytes._UNPACKED_BYTES
    monkeypatch.setattr(file_bytes, "_KEPT_BYTES", 20 * each_bytes)
    paths = _write(tmp_path, 21)
    for path in [*paths[:20], paths[0], paths[20], paths[0], paths[1]]:
        open_packed(path, "gzip", 7)
    assert opened == [*(f"{number:03d}.gz" for number in range(21)), "001.gz"]


def test_a_few_large_files_stay_open(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(file_bytes, "_KEPT_BYTES", 1)
    paths = _write(tmp_path, 16)
    for path in paths * 2:
        open_packed(path, "gzip", 7)
    assert len(opened) == 16


def test_a_file_that_was_changed_is_opened_anew(tmp_path):
    (path,) = _write(tmp_path, 1)
    assert open_packed(path, "gzip", 1).pread(99, 0) == b"content 0"
    with open(path, "wb") as file:
        file.write(gzip.compress(b"another"))
    assert open_packed(path, "gzip", 2).pread(99, 0) == b"another"


def test_a_checksum_is_looked_at_where_it_is_wanted(tmp_path):
    data = bytearray(gzip.compress(bytes(10**6)))
    data[-8] ^= 1
    (tmp_path / "a.gz").write_bytes(data)
    path = str(tmp_path / "a.gz")
    assert open_packed(path, "gzip", 1).pread(10**6, 0) == bytes(10**6)
    with pytest.raises(OSError, match=r"CRC|readinto"):
        open_packed(path, "gzip", 1, is_checked=True).pread(10**6, 0)


def test_a_zlib_stream_is_read_from_anywhere(tmp_path):
    (tmp_path / "a.zlib").write_bytes(zlib.compress(b"0123456789"))
    assert open_packed(str(tmp_path / "a.zlib"), "zlib", 1).pread(3, 4) == b"456"
