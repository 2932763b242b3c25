"""Headers of archives that lie: no hang, no crash, and no more memory than names take."""

import io
import tarfile
import tracemalloc
import zipfile

import pytest

from image_pipeline.components.archives.archive_members import list_members

pytestmark = pytest.mark.unit


def _header(kind: bytes, size: int, name: str = "a/x.jpg") -> bytes:
    info = tarfile.TarInfo(name)
    info.type = kind
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" + size.to_bytes(11, signed=True) if size < 0 else b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _member(name: str) -> bytes:
    return _header(b"0", 4, name) + b"text".ljust(512, b"\0")


def _attributes(line: str) -> bytes:
    text = f"{len(line) + 4:2d} {line}\n".encode()
    return _header(b"x", len(text)) + text.ljust(512, b"\0")


LONG_NAME = _header(b"L", 11) + b"a/long.jpg".ljust(512, b"\0")
LIES = {
    "a sparse file that leads back": _header(b"S", -512),
    "a long name that leads back": _header(b"L", -1024),
    "attributes that lead back": _header(b"x", -5000),
    "a file that leads back": _header(b"7", -(10**9)),
    "long names of long names": LONG_NAME * 5000,
    "attributes of attributes": _header(b"x", 0) * 5000,
    "attributes of all, again and again": _header(b"g", 0) * 5000,
    "a size that is none": _attributes("GNU.sparse.size=x"),
    "a map that is none": _attributes("GNU.sparse.map=0,x"),
    "a long name of a gigabyte": _header(b"L", 2**30),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_the_members_around_a_header_that_lies_are_read(tmp_path, lie):
    path = tmp_path / "t.tar"
    path.write_bytes(_member("a/1.jpg") + lie + _member("a/2.jpg") + bytes(1024))
    refs = list(list_members(str(path), 0))
    assert [ref.problem for ref in refs if "#byte-" in ref.path] == ["corrupt"]
    last = "a/long.jpg" if lie.startswith(LONG_NAME) else "a/2.jpg"
    assert [ref.path for ref in refs if ref.problem is None] == ["a/1.jpg", last]


def test_headers_take_no_more_memory_than_names_do(tmp_path):
    path = tmp_path / "t.tar"
    with path.open("wb") as file:
        file.write(_member("a/1.jpg") + _header(b"L", 2**26))
        file.truncate(2**26)
    tracemalloc.start()
    try:
        assert [ref.path for ref in list_members(str(path), 0)][:1] == ["a/1.jpg"]
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_long_names_and_attributes_are_read_as_ever(tmp_path):
    names = ["a/" + "n" * 5000 + ".jpg", "a/\u00e9.jpg", "a/1.jpg"]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "t.tar", "w", format=form) as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size, info.pax_headers = 4, {"SCHILY.xattr.user.x": "x" * 100_000}
                archive.addfile(info, io.BytesIO(b"text"))
        refs = list(list_members(str(tmp_path / "t.tar"), 0))
        assert [(ref.path, ref.problem) for ref in refs] == [(name, None) for name in names]


def test_a_zip_member_may_have_no_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a/1.jpg", b"x")
        archive.writestr(zipfile.ZipInfo(""), b"y")
    assert [ref.path for ref in list_members(str(tmp_path / "t.zip"), 0)] == ["a/1.jpg", "."]
