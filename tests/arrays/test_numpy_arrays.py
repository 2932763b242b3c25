"""`.npy` and `.npz` files: headers, packed members read from anywhere, and damage."""

import re
import struct
import zipfile

import numpy as np
import pytest

from image_pipeline.components.arrays import numpy_arrays
from image_pipeline.components.arrays.numpy_arrays import open_npy, open_npz
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from tests.array_files import IMAGES

pytestmark = pytest.mark.unit


def _open(path):
    return {array.name: array for array in open_npz(str(path))}


def test_packed_members_are_read_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_arrays, "_BLOCK_BYTES", 2**16)
    images = np.random.default_rng(1).integers(0, 50, (3000, 8, 8, 3), np.uint8)
    np.savez_compressed(tmp_path / "a.npz", x=images, y=np.arange(3000))
    array = _open(tmp_path / "a.npz")["x"]
    assert array.rows_at_once == 2**16 // 192
    for start in (2990, 0, 1500, 10, 2000):
        assert np.array_equal(array.read(start, start + 10), images[start : start + 10])


def _damage(path, at):
    with zipfile.ZipFile(path) as archive:
        member = archive.infolist()[0]
    data = bytearray(path.read_bytes())
    start = member.header_offset + int(at * member.compress_size)
    data[start : start + 2000] = np.random.default_rng(2).bytes(2000)
    path.write_bytes(data)


def test_a_packed_member_that_was_changed_anywhere_is_damaged_everywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_arrays, "_BLOCK_BYTES", 2**16)
    path, images = tmp_path / "a.npz", np.random.default_rng(1).integers(0, 40, (4000, 9, 9))
    np.savez_compressed(path, x=images.astype(np.uint8))
    data = path.read_bytes()
    for at in range(5000, 60_000, 5000):
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        array = _open(path)["x"]
        for start in (0, 3990):
            with pytest.raises(BadImage, match=r"'x.npy' cannot be unpacked") as error:
                array.read(start, start + 10)
            assert error.value.reason == CORRUPT
    _damage(path, at=0.001)
    assert _open(path)["x"].problem.startswith("'x.npy' cannot be unpacked")


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.full(3, None), "of Python objects, which are never unpickled"),
        (np.asfortranarray(IMAGES), "in Fortran's order"),
        (np.zeros(3, [("é", "u1")]), "not to be read: an array of structures"),
    ],
)
def test_what_is_not_read(tmp_path, array, problem):
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", a=array, b=np.arange(2))
    (by_itself,) = open_npy(str(tmp_path / "a.npy"))
    assert problem in by_itself.problem
    members = _open(tmp_path / "a.npz")
    assert problem in members["a"].problem
    assert members["b"].problem == ""


HEADER = "{'descr': '|u1', 'fortran_order': False, 'shape': (9, 2, 2)}"


@pytest.mark.parametrize(
    "header",
    [
        *("{'descr': __import__('os'), ", "{" * 99, "\0", ""),
        *(HEADER.replace("9", "-9"), HEADER.replace("|u1", "|q9")),
    ],
)
def test_damaged_headers(tmp_path, header):
    data = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + bytes(99)
    for content in (data, data[:9], b"PK", b""):
        (tmp_path / "a.npy").write_bytes(content)
        (array,) = open_npy(str(tmp_path / "a.npy"))
        assert re.match("not to be read: |damaged: |of an unknown type, 'q9'", array.problem)
