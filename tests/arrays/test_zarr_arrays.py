"""Zarr: chunks that are damaged or were never written, texts and files, and what is refused."""

import json
import re
import zipfile

import numcodecs
import numpy as np
import pytest
import zarr

from image_pipeline.components.arrays.arrays import reopen_arrays
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from tests.array_files import IMAGES, write_zarr
from tests.arrays.test_array_tables import list_refs, open_table

pytestmark = pytest.mark.e2e


def test_an_array_by_itself(tmp_path):
    zarr.save_array(tmp_path / "a.zarr", IMAGES, chunks=(7, 6, 5, 3))
    (array,) = reopen_arrays(str(tmp_path / "a.zarr")).values()
    assert (array.name, array.rows_at_once) == ("array", 7)
    assert np.array_equal(array.read(3, 20), IMAGES[3:20])


def test_a_damaged_chunk_and_one_that_is_not_there(tmp_path):
    path = write_zarr(tmp_path / "a.zarr", {"x": IMAGES})
    (path / "x/1.0.0.0").write_bytes(b"\xff" * 40)
    for chunk in path.glob("x/2.*"):
        chunk.unlink()
    table = open_table(path)
    refs = list(table.list())
    with pytest.raises(BadImage, match="'/x' cannot be read"):
        table.read(refs[7], 999)
    assert table.read(refs[14], 10**6).endswith(bytes(90))  # Zarr's fill value


@pytest.mark.parametrize("separator", [".", "/"])
def test_a_chunk_that_is_not_there_and_has_no_fill_value(tmp_path, separator):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    settings = {"chunks": (7, 4, 5, 2), "dimension_separator": separator, "fill_value": None}
    group.create_dataset("x", data=IMAGES, **settings)
    chunk = separator.join("1101")
    (tmp_path / "a.zarr/x" / chunk).unlink()
    (array,) = reopen_arrays(str(tmp_path / "a.zarr")).values()
    for start, stop in [(0, 7), (14, 50)]:
        assert np.array_equal(array.read(start, stop), IMAGES[start:stop])
    for start, stop in [(7, 8), (0, 50), (13, 14)]:
        with pytest.raises(BadImage, match=r"'/x' has no chunk x/1.1.0.1, and no"):
            array.read(start, stop)


@pytest.mark.parametrize(("fill", "is_bad"), [({}, True), ({"fill_value": ""}, False)])
def test_texts_and_files_that_are_not_there_are_bad_rows(tmp_path, fill, is_bad):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    files = np.array([b"\xff\xd8\xff" + bytes(n) for n in range(4)], object)
    texts = np.array(list("abcd"), object)
    group.array("jpeg", files, object_codec=numcodecs.VLenBytes(), chunks=(2,))
    group.array("y", texts, object_codec=numcodecs.VLenUTF8(), chunks=(1,), **fill)
    (tmp_path / "a.zarr/jpeg/1").unlink()
    (tmp_path / "a.zarr/y/0").unlink()
    refs = list_refs(tmp_path / "a.zarr")
    assert [bool(ref.problem) for ref in refs] == [is_bad, False, True, True]
    assert refs[2].message == "a.zarr:2: '/jpeg' has no chunk jpeg/1, and no fill value"


def test_texts_files_and_objects(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    contents, names = [b"\xff\xd8\xff" + bytes(n) for n in range(5)], list("abcdé")
    for name, values, codec in (
        ("jpeg", contents, numcodecs.VLenBytes()),
        ("name", names, numcodecs.VLenUTF8()),
        ("pickled", [{}, 1, 2, 3, 4], numcodecs.Pickle()),
    ):
        group.array(name, np.array(values, object), object_codec=codec, chunks=(2,))
    table = open_table(tmp_path / "a.zarr")
    assert table.options.columns == {"image": "jpeg", "path": "name"}
    refs = list(table.list())
    assert [ref.path for ref in refs] == names
    assert [table.read(ref, 99) for ref in refs] == contents
    with pytest.raises(
        UserError, match=r"'pickled' as label, but .* it is packed by 'pickle', which is not read"
    ):
        list_refs(tmp_path / "a.zarr", columns={"label": "pickled"})


def test_a_folder_that_is_none_and_format_3(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(UserError, match=r"a.zarr' cannot be read: it is not a Zarr store that"):
        list_refs(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps({"zarr_format": 3}))
    with pytest.raises(UserError, match="it has Zarr's format 3; write it as zarr_format=2"):
        list_refs(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("zarr.json", "it has Zarr's format 3; write it as zarr_format=2"),
        ("a.zarr/.zgroup", "neither .zarray nor .zgroup; give the folder that has one, or a zip"),
    ],
)
def test_a_zip_file_of_format_3_and_one_of_the_folder_itself(tmp_path, member, said):
    with zipfile.ZipFile(tmp_path / "a.zarr.zip", "w") as packed:
        packed.writestr(member, json.dumps({"zarr_format": 3}))
    with pytest.raises(UserError, match=re.escape(said)):
        list_refs(tmp_path / "a.zarr.zip")


def test_objects_without_a_filter_are_named_and_cost_no_other_array(tmp_path):
    path = write_zarr(tmp_path / "a.zarr", {"x": IMAGES, "other": np.arange(50)})
    found = json.loads((path / "other/.zarray").read_text())
    (path / "other/.zarray").write_text(json.dumps(found | {"dtype": "|O", "filters": None}))
    arrays = reopen_arrays(str(path))
    assert arrays["other"].problem == (
        "of Python objects, which are never unpickled; write texts with object_codec=VLenUTF8(), "
        "and files with VLenBytes(), both of numcodecs"
    )
    assert np.array_equal(arrays["x"].read(0, 50), IMAGES)


@pytest.mark.parametrize("name", ["x/2.0.0.0", "x/.zarray"])
def test_a_damaged_zip_file(tmp_path, name):
    path = tmp_path / "a.zarr.zip"
    with zarr.ZipStore(path, mode="w") as store:
        group = zarr.open_group(store, mode="w")
        group.create_dataset("x", data=IMAGES, chunks=(7, 6, 5, 3), compressor=None)
    data = bytearray(path.read_bytes())
    data[data.index(name.encode()) + len(name) + 5] ^= 1
    path.write_bytes(data)
    if name.endswith(".zarray"):
        with pytest.raises(
            ValueError, match=r"it is not a Zarr store that can be read \('x': Bad CRC-32"
        ):
            reopen_arrays(str(path))
        return
    (array,) = reopen_arrays(str(path)).values()
    assert np.array_equal(array.read(0, 14), IMAGES[:14])
    with pytest.raises(BadImage, match=r"'/x' cannot be read .*Bad CRC-32"):
        array.read(14, 15)


def test_metadata_that_says_nothing(tmp_path):
    write_zarr(tmp_path / "a.zarr", {"x": IMAGES})
    (tmp_path / "a.zarr" / ".zgroup").write_text("{}")
    with pytest.raises(
        ValueError, match=r"it is not a Zarr store that can be read \(unsupported zarr format"
    ):
        reopen_arrays(str(tmp_path / "a.zarr"))


@pytest.mark.parametrize(
    "filters",
    [
        [numcodecs.AsType("<f8", "|u1")],
        [numcodecs.Delta("|u1", "<i8"), numcodecs.CRC32()],
        [numcodecs.Delta("|u1", "<i4"), numcodecs.AsType("<i8", "<i4")],
    ],
)
def test_filters_that_store_wider_values(tmp_path, filters):
    settings = {"chunks": (50, 6, 5, 3), "filters": filters, "compressor": None}
    zarr.open_group(tmp_path / "a.zarr", mode="w").array("x", IMAGES, **settings)
    (array,) = reopen_arrays(str(tmp_path / "a.zarr")).values()
    assert np.array_equal(array.read(0, len(IMAGES)), IMAGES)


def test_texts_with_a_checksum(tmp_path):
    texts = np.array(["a", "bb", "ä"], object)
    settings = {"object_codec": numcodecs.VLenUTF8(), "filters": [numcodecs.CRC32()]}
    zarr.open_group(tmp_path / "a.zarr", mode="w").array("y", texts, **settings)
    (array,) = reopen_arrays(str(tmp_path / "a.zarr")).values()
    assert array.read(0, 3).tolist() == ["a", "bb", "ä"]
