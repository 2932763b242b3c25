"""Files of arrays whose shapes, chunks, codecs and links say what nobody should act on."""

import base64
import bz2
import dataclasses
import gzip
import json
import lzma
import os
import pathlib
import pickle
import re
import struct
import zipfile
import zlib

import h5py
import numcodecs
import numpy as np
import pytest
import zarr

from image_pipeline.components.arrays.arrays import reopen_arrays
from image_pipeline.components.arrays.hdf5_arrays import open_hdf5
from image_pipeline.components.arrays.numpy_arrays import open_npy
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.npy import NPY_MAGIC
from image_pipeline.components.sources import frames, rows
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.options import VideoOptions
from tests.array_files import IMAGES, write_hdf5, write_npz
from tests.arrays.test_array_tables import list_refs, open_table
from tests.videos import encode

pytestmark = pytest.mark.unit

ZEROS = bytes(2**24)


class Evil:
    """Makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def write_array(path, data, name="X", **metadata):
    """A Zarr group with one array [4, 8, 8, 3] of four chunks, which all have these bytes."""
    (path / name).mkdir(parents=True, exist_ok=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    stated = {"zarr_format": 2, "shape": [4, 8, 8, 3], "chunks": [1, 8, 8, 3], "dtype": "|u1"}
    stated |= {"compressor": None, "filters": None, "fill_value": 0, "order": "C"} | metadata
    (path / name / ".zarray").write_text(json.dumps(stated))
    for row in range(stated["shape"][0]):
        key = ".".join([str(row)] + ["0"] * (len(stated["shape"]) - 1))
        (path / name / key).write_bytes(data)
    return str(path)


@pytest.mark.e2e
def test_no_codec_of_zarr_unpickles(tmp_path):
    ran = tmp_path / "ran"
    pickled = pickle.dumps(Evil(ran))
    said = {"filters": [{"id": "pickle", "protocol": 5}]}
    fill = {"dtype": [["a", "|O"]], "fill_value": base64.b64encode(pickled).decode()}
    for name, more in {"numbers": {}, "structures": fill, "objects": {"dtype": "|O"}}.items():
        path = write_array(tmp_path / "a.zarr", pickled, name, **said, **more)
    problem = "packed by 'pickle', which is not read; write it with another codec"
    found = {name: array.problem for name, array in reopen_arrays(path).items()}
    assert found == dict.fromkeys(("numbers", "objects", "structures"), problem)
    other = {"dtype": "|O", "filters": [{"id": "json2"}]}
    (array,) = reopen_arrays(write_array(tmp_path / "b.zarr", b"", **other)).values()
    assert array.problem.startswith("of Python objects, which are never unpickled; write texts")
    assert not ran.exists()


def _deflate_zeros(size: int) -> bytes:
    """So many zeros, packed; the checksum at their end, which nobody gets to, is missing."""
    packing = zlib.compressobj(9)
    begin, part = (packing.compress(ZEROS) + packing.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return begin + part * (size // len(ZEROS) - 1)


BOMBS = {
    "zlib": ({"id": "zlib", "level": 1}, zlib.compress(ZEROS, 9)),
    "gzip": ({"id": "gzip", "level": 1}, gzip.compress(ZEROS, 9)),
    "gzip in members": ({"id": "gzip", "level": 1}, gzip.compress(bytes(192)) * 9),
    "bz2": ({"id": "bz2", "level": 1}, bz2.compress(ZEROS, 9)),
    "lzma": ({"id": "lzma", "format": 1}, lzma.compress(ZEROS)),
    "zstd": ({"id": "zstd", "level": 1}, bytes(numcodecs.Zstd(1).encode(ZEROS))),
    "blosc": ({"id": "blosc"}, bytes(numcodecs.Blosc().encode(ZEROS[: 2**20]))),
    "lz4": ({"id": "lz4"}, struct.pack("<I", 2**31 - 1) + bytes(40)),
    "of 4 GiB": ({"id": "zlib", "level": 1}, _deflate_zeros(2**32)),
}


@pytest.mark.e2e
def test_a_chunk_is_not_unpacked_to_more_than_it_has(tmp_path):
    for name, (compressor, data) in BOMBS.items():
        path = write_array(tmp_path / "a.zarr", data, name, compressor=compressor)
    arrays = reopen_arrays(path)
    assert arrays.keys() == BOMBS.keys()
    for name, array in arrays.items():
        is_held = name in ("lz4", "of 4 GiB")
        message = "takes far more memory than its values" if is_held else "cannot reshape array of"
        with pytest.raises(BadImage, match=rf"'/{name}' cannot be read \(.*{message}"):
            array.read(0, 1)


# By what is said of it: a chunk's bytes, its compressor and its filters.
DAMAGED = {
    "error during blosc decompression": (b"ab", {"id": "blosc"}, None),
    "Zstd decompression error": (b"no frame", {"id": "zstd"}, None),
    "incomplete or truncated": (zlib.compress(bytes(192))[:-2], {"id": "zlib"}, None),
    "array of size 191": (bytes(191), None, None),
    "array of size 1 ": (zlib.compress(b"1"), {"id": "zlib"}, None),
    "array of size 190 ": (bytes(numcodecs.Blosc().encode(bytes(190))), {"id": "blosc"}, None),
    "array of size 1048576": (bytes(2**20), None, None),
    "array of size 50032056": (bytes(192), None, [{"id": "packbits"}] * 6),
    "array of size 3072": (bytes(192), None, [{"id": "delta", "dtype": "<c16", "astype": "|i1"}]),
    # The library believes this one, and reads on behind what it was given.
    "was killed by signal 11": (
        *(struct.pack("<4BIII", 2, 1, 33, 1, 192, 192, 2**31), {"id": "blosc"}, None),
    ),
}


def check_refused(path, name, messages):
    """Each array of this name and a number is refused with its message."""
    arrays = reopen_arrays(path)
    for number, message in enumerate(messages):
        with pytest.raises(BadImage, match=message):
            arrays[f"{name}{number}"].read(0, 1)


@pytest.mark.e2e
def test_a_damaged_chunk_is_refused_in_a_sentence(tmp_path):
    for number, (data, compressor, filters) in enumerate(DAMAGED.values()):
        how = {"compressor": compressor, "filters": filters}
        path = write_array(tmp_path / "a.zarr", data, f"x{number}", **how)
    check_refused(path, "x", DAMAGED)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"chunks": [1, 1, 1, 1], "shape": [4, 8000, 8000, 1]}, "each row has 64,000,000"),
        ({"chunks": [2, 10**6, 400, 1], "shape": [4, 10**6, 400, 1]}, "800,000,000 bytes each"),
        ({"dtype": "<M8[s]"}, r"of the type datetime64\[s\], which is not read"),
    ],
)
def test_an_array_of_zarr_that_is_not_read(tmp_path, metadata, problem):
    (array,) = reopen_arrays(write_array(tmp_path / "a.zarr", b"", **metadata)).values()
    assert re.search(problem, array.problem)


@pytest.mark.e2e
@pytest.mark.parametrize(
    "changed",
    [
        *({"shape": sides} for sides in ([4, -8, 8, 3], [4, 2**64, 8, 3], ["a"], 4, [True] * 4)),
        *({"chunks": sides} for sides in ([1, 8, 8], [0, 8, 8, 3], [1.5, 8, 8, 3])),
        *({"compressor": {"id": "blosc", "x": 1}}, {"compressor": 5}, {"filters": "x"}),
        *({"fill_value": "x"}, {"zarr_format": 1}),
    ],
)
def test_metadata_that_lies_is_refused_in_a_sentence(tmp_path, changed):
    path = write_array(tmp_path / "a.zarr", b"")
    stated = json.loads((tmp_path / "a.zarr/X/.zarray").read_text()) | changed
    (tmp_path / "a.zarr/X/.zarray").write_text(json.dumps(stated))
    with pytest.raises(
        ValueError, match=r"it is not a Zarr store that can be read \('X'(:| has ).*\w"
    ):
        reopen_arrays(path)


@pytest.mark.e2e
@pytest.mark.parametrize("text", ["[" * 10**5, "{}", "[]", "4", " " * 2**21])
def test_metadata_of_any_kind_is_refused_in_a_sentence(tmp_path, text):
    path = write_array(tmp_path / "a.zarr", b"")
    (tmp_path / "a.zarr/X/.zarray").write_text(text)
    with pytest.raises(ValueError, match="it is not a Zarr store that can be read "):
        reopen_arrays(path)


@pytest.mark.e2e
def test_texts_that_lie_about_their_number_and_length(tmp_path):
    said = {"shape": [1], "chunks": [3], "dtype": "|O", "filters": [{"id": "vlen-utf8"}]}
    damaged = {
        "far more memory than its values": struct.pack("<I", 2**32 - 1),
        "data seem truncated": struct.pack("<II", 3, 2**32 - 1),
        "invalid start byte": struct.pack("<IIIB", 3, 0, 1, 0xFF),
    }
    for number, data in enumerate(damaged.values()):
        path = write_array(tmp_path / "a.zarr", data, f"y{number}", **said)
    check_refused(path, "y", damaged)


@pytest.mark.e2e
def test_links_out_of_a_zarr_store_are_not_read(tmp_path):
    path = write_array(tmp_path / "a.zarr", bytes(192))
    outside = tmp_path / "outside"
    outside.write_bytes(b"SECRET" * 32)
    chunk = tmp_path / "a.zarr/X/1.0.0.0"
    chunk.unlink()
    chunk.symlink_to(outside)
    (array,) = reopen_arrays(path).values()
    with pytest.raises(BadImage, match=r"outside: 'X/1.0.0.0' is a link that leads out") as caught:
        array.read(1, 2)
    assert caught.value.reason == "outside"
    chunk.unlink()
    chunk.symlink_to("2.0.0.0")  # Within the store, it is followed.
    assert np.array_equal(array.read(1, 2), np.zeros((1, 8, 8, 3), np.uint8))
    for target in ("/nowhere", "3.0.0.0/x"):
        chunk.unlink()
        chunk.symlink_to(target)
        with pytest.raises(BadImage):
            array.read(1, 2)
    chunk.unlink()
    os.mkfifo(chunk)
    with pytest.raises(BadImage, match=r"'X/1.0.0.0' is not a regular file"):
        array.read(1, 2)


@pytest.mark.e2e
def test_a_linked_array_is_not_opened(tmp_path):
    write_array(tmp_path / "outside", bytes(192))
    path = pathlib.Path(write_array(tmp_path / "a.zarr", bytes(192), name="Y"))
    (path / "X").symlink_to(tmp_path / "outside/X")
    with pytest.raises(ValueError, match=r"'X/.zarray' is a link that leads out of the store"):
        reopen_arrays(str(path))


def test_labels_beside_an_array_are_no_link_out(tmp_path):
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in/X.npy", IMAGES)
    np.save(tmp_path / "y.npy", np.arange(len(IMAGES)))
    (tmp_path / "in/y.npy").symlink_to(tmp_path / "y.npy")
    with pytest.raises(UserError, match=r"'y.npy' beside .* is a link that leads out of its"):
        list_refs(tmp_path / "in/X.npy")
    assert len(list_refs(tmp_path / "in/X.npy", columns={"label": None})) == len(IMAGES)


@pytest.mark.e2e
def test_rows_are_held_to_what_a_file_can_have(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "FREE_ROWS", 2000)
    for count in (2000, 10**12):  # Rows that were never written are read, if they are not too many.
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("X", (count, 8, 8, 3), "u1", chunks=(100, 8, 8, 3), fillvalue=7)
        group = zarr.open_group(tmp_path / f"{count}.zarr", mode="w")
        group.create_dataset("X", shape=(count, 8, 8, 3), chunks=(100, 8, 8, 3), dtype="u1")
        for path in (tmp_path / "a.h5", tmp_path / f"{count}.zarr"):
            if count == 2000:
                refs = list_refs(path)
                assert len(refs) == 2000
                continue
            with pytest.raises(UserError, match=r"1,000,000,000,000 rows, in [\d,]+ bytes"):
                list_refs(path)
    np.savez_compressed(tmp_path / "b.npz", X=np.zeros((2001, 8, 8, 3), np.uint8))
    assert (tmp_path / "b.npz").stat().st_size < 2001
    with pytest.raises(UserError, match="2,001 rows"):
        list_refs(tmp_path / "b.npz")
    random = np.random.default_rng(0).integers(0, 255, (2001, 8, 8), np.uint8)
    np.savez_compressed(tmp_path / "c.npz", X=random)
    assert len(list_refs(tmp_path / "c.npz")) == 2001


def test_the_head_of_a_row_that_is_too_large_is_not_unpacked(tmp_path):
    path = write_npz(tmp_path / "a.npz", {"X": IMAGES})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") - 40] ^= 1  # Whoever unpacks it finds that it is damaged.
    path.write_bytes(data)
    table = open_table(path)
    (ref, *_) = table.list()
    assert table.read(ref, 16)[:6] == b"\x93NUMPY"


@pytest.mark.e2e
def test_values_of_hdf5_are_not_unpacked_to_more_than_a_chunk_has(tmp_path):
    settings = {"maxshape": (None,), "chunks": (200_000,), "compression": "gzip"}
    types = {"enum": h5py.enum_dtype({"a": 0, "b": 1}, "u1"), "number": "u1"}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, dtype in types.items():
            item = file.create_dataset(name, (4,), dtype, **settings)
            item.id.write_direct_chunk((0,), _deflate_zeros(2**32))
    for name, array in reopen_arrays(str(tmp_path / "a.h5")).items():
        with pytest.raises(BadImage, match=f"a chunk of '/{name}' has more than 200,000 bytes"):
            array.read(0, 4)


def test_texts_of_a_checksummed_chunk_are_still_read(tmp_path):
    texts = np.array([b"ab", b"c", b"", b"defg"])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        settings = {"chunks": (2,), "compression": "gzip", "shuffle": True, "fletcher32": True}
        file.create_dataset("y", data=texts, **settings)
    (array,) = open_hdf5(str(tmp_path / "a.h5"))
    assert array.read(0, 4).tolist() == texts.tolist()


@pytest.mark.e2e
def test_a_text_of_hdf5_is_held_to_a_cell(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"X": IMAGES[:2]})
    with h5py.File(path, "a") as file:
        file.create_dataset("y", data=["a" * (2**20 + 1), "b"], dtype=h5py.string_dtype())
    first, second = list_refs(path)
    assert (first.problem, second.annotations.label) == ("bad_row", "b")
    assert "a text of 'y' has more than 1,048,576 bytes" in first.message


def test_groups_that_are_deep_or_lead_back(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("a")
        group["up"], group["self"] = file["/"], group
        group["X"] = IMAGES
        group["X again"] = group["X"]
        file["soft"] = h5py.SoftLink("/soft")
        file["z"] = h5py.ExternalLink("other.h5", "X")
    found = open_hdf5(str(tmp_path / "a.h5"))
    assert [array.name for array in found] == ["a/X", "soft", "z"]
    assert "in another file, 'other.h5'" in found[2].problem
    with h5py.File(tmp_path / "b.h5", "w") as file:
        group = file
        for _ in range(120):
            group = group.create_group("g")
    with pytest.raises(ValueError, match="more than 100,000 groups and data sets, 100 deep"):
        open_hdf5(str(tmp_path / "b.h5"))


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("shape", "dtype"), [((4, 10**9), "u1"), ((4,), "S1000000000"), ((4,), "S40000000")]
)
def test_wide_labels_are_not_read(tmp_path, shape, dtype):
    path = write_hdf5(tmp_path / "a.h5", {"X": IMAGES[:4]})
    with h5py.File(path, "a") as file:
        file.create_dataset("y", shape, dtype)
    with pytest.raises(UserError, match=r"the labels 'y' are .* which name no class"):
        list_refs(path)
    row_bytes = np.dtype(dtype).itemsize * (shape[1] if len(shape) > 1 else 1)
    message = f"'y' as label, but in .* each of its rows has {row_bytes:,} bytes, more than the"
    with pytest.raises(UserError, match=message):
        list_refs(path, columns={"label": "y"})


@pytest.mark.parametrize(
    ("shape", "descr", "problem"),
    [
        ((4, 2**32, 2**32), "|u1", "of sides that no file has"),
        ((4, *[1] * 100), "|u1", "of 101 dimensions, more than 32"),
        ((4,), "|S0", "of texts of length 0"),
    ],
)
def test_shapes_that_nothing_can_have(tmp_path, shape, descr, problem):
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    assert len(open_npy(str(tmp_path / "a.npy"))) == 1
    with pytest.raises(UserError, match=re.escape(f"holds no images (a.npy: {problem})")):
        list_refs(tmp_path / "a.npy")


@pytest.mark.e2e
def test_a_zip_file_whose_folders_have_no_names_or_are_deep(tmp_path):
    path = tmp_path / "a.zarr.zip"
    group = '{"zarr_format": 2}'
    with zipfile.ZipFile(path, "w") as file:
        for key in (".zgroup", "QQ", "/", "x/.zgroup", "x/", "x//.zgroup"):
            file.writestr(key, group)
    path.write_bytes(path.read_bytes().replace(b"QQ", b"\0Q"))  # A name ends at its first zero.
    assert reopen_arrays(str(path)) == {}
    with zipfile.ZipFile(path, "w") as file:
        for depth in range(110):
            file.writestr("x/" * depth + ".zgroup", group)
    with pytest.raises(ValueError, match=r"can be read .it is more than 100 groups deep"):
        reopen_arrays(str(path))


def test_frames_that_no_file_has_and_the_kind_of_one_that_is_too_large(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").write_bytes(encode(5))
    source = frames.Frames(Folder(str(tmp_path)), VideoOptions(frames_per_second=1000))
    listed = list(source.list())
    assert len(listed) > 100
    monkeypatch.setattr(frames, "_find_video", lambda source, ref: pytest.fail("it is decoded"))
    assert source.read(listed[0], 16) == NPY_MAGIC
    monkeypatch.setattr(frames, "FREE_ROWS", 10)
    assert list(source.list()) == listed  # They are fewer than its bytes.
    refs = [
        dataclasses.replace(ref, size_bytes=len(listed) - 1) for ref in Folder(str(tmp_path)).list()
    ]
    (refused,) = source.list_frames(refs[0])
    assert (refused.path, refused.problem) == ("a.mp4", "corrupt")
    assert refused.message.endswith("frames, more than it has bytes")
