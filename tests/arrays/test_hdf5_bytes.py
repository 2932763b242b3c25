"""Texts and files in HDF5: read as HDF5 reads them, but for damage, in which that may never end."""

import struct

import h5py
import numpy as np
import pytest

from image_pipeline.components.arrays.array_tables import read_array_rows
from image_pipeline.components.arrays.hdf5_arrays import open_hdf5
from image_pipeline.components.images.bad_image import BadImage
from tests.array_files import IMAGES, write_files, write_hdf5

pytestmark = pytest.mark.unit

RNG = np.random.default_rng(1)
# Of several collections, one with more than is read at once; empty ones; and a zero within.
FILES = [RNG.bytes(int(size)) for size in (*RNG.integers(0, 9_000, 400), 0, 3_000_000, 5)]
TEXTS = [f"{'é' * (row % 50)} {row}" for row in range(len(FILES))]


def _open(path):
    return {array.name: array for array in open_hdf5(str(path))}


def _set_size(path, number: int, size: int) -> None:
    """Changes the size that the first collection gives for one of its objects."""
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 16
    while (header := struct.unpack_from("<HHIQ", data, at))[0] != number:
        at += 16 + -(-header[3] // 8) * 8
    struct.pack_into("<Q", data, at + 8, size)
    path.write_bytes(data)


@pytest.mark.parametrize("userblock_size", [0, 512])
@pytest.mark.parametrize("settings", [{}, {"chunks": (7,), "compression": "gzip"}])
def test_rows_are_those_that_hdf5_reads(tmp_path, monkeypatch, settings, userblock_size):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=userblock_size) as file:
        file.create_dataset("text", data=TEXTS, **settings)
        file.create_dataset("deep", data=np.array(TEXTS[:50], object).reshape(10, 5))
    write_files(path, "file", FILES, **settings)
    monkeypatch.setattr(h5py.Dataset, "__getitem__", None)
    arrays = _open(path)
    for start, stop in [(0, len(FILES)), (5, 6), (398, 403)]:
        assert list(arrays["file"].read(start, stop)) == FILES[start:stop]
        assert arrays["file"].count_bytes(start, stop) == list(map(len, FILES[start:stop]))
        assert [text.decode() for text in arrays["text"].read(start, stop)] == TEXTS[start:stop]
    assert arrays["deep"].read(3, 4).tolist() == [[text.encode() for text in TEXTS[15:20]]]


def test_what_was_never_written_is_empty_or_the_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, settings in {"late": {}, "chunked": {"chunks": (2,)}, "own": {}}.items():
            fill = {"fillvalue": "none"} if name == "own" else {}
            rows = file.create_dataset(name, (5,), h5py.string_dtype(), **settings, **fill)
            rows[0] = "a b" if name == "chunked" else "a"
    # Other programs' texts may end in a zero.
    data = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "a.h5").write_bytes(data.replace(b"a b", b"a\0b"))
    arrays = _open(tmp_path / "a.h5")
    assert arrays["late"].read(0, 5).tolist() == [b"a", *[b""] * 4]
    assert arrays["chunked"].read(0, 5).tolist() == [b"a", *[b""] * 4]
    assert arrays["own"].read(0, 5).tolist() == [b"a", *[b"none"] * 4]


@pytest.mark.parametrize("size", [2**64 - 16, 2**64 - 1, 2**62, 4])
def test_a_damaged_heap_costs_its_own_rows(tmp_path, size):
    # Of the first of these sizes HDF5 itself makes an endless loop: the next begins where it does.
    labels = [f"label {row}" for row in range(len(IMAGES))]
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES, "y": labels})
    _set_size(path, 20, size)
    rows = list(read_array_rows(str(path), {}))
    bad = [row.line for row in rows if row.problem]
    assert 0 < len(bad) <= 31
    assert all("a text or file is not among those" in rows[line].problem for line in bad)
    good = [row for row in rows if not row.problem]
    assert all(row.cells["y"] == labels[row.line] for row in good)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, b"GCOX", "no texts or files lie at byte"),
        (4, b"\7", "no texts or files lie at byte"),
        (8, b"\xff" * 7, "no texts or files lie at byte"),
        (16, b"\0\0", "the texts or files at byte .* are damaged"),
    ],
)
def test_a_collection_that_is_none_is_refused(tmp_path, place, value, message):
    path = write_files(tmp_path / "a.h5", "file", FILES[:3])
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + place
    data[at : at + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(BadImage, match=message):
        _open(path)["file"].read(0, 1)


def test_a_pointer_past_the_end_is_refused(tmp_path):
    path = write_files(tmp_path / "a.h5", "file", FILES[:3])
    with h5py.File(path) as file:
        offset = file["file"].id.get_offset()
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, offset + 4, 2**63 + 8)
    path.write_bytes(data)
    with pytest.raises(BadImage, match="no texts or files lie at byte 9223372036854775816"):
        _open(path)["file"].read(0, 1)
