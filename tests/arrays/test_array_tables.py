"""Arrays as tables: which of them are columns, and that each row is read as it was stored."""

import dataclasses
import io

import h5py
import numpy as np
import pytest

from image_pipeline.components.arrays.array_tables import read_array_rows
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.sources.file_names import name_of, split_of
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.understood import collect
from image_pipeline.components.tables.table import Table
from image_pipeline.components.tables.table_columns import complete_options
from tests.array_files import (
    FORMATS,
    IMAGES,
    NAMES,
    WRITERS,
    write_files,
    write_hdf5,
    write_npy,
    write_npz,
)

pytestmark = pytest.mark.unit
DTYPES = (">u2", "<f4", "<f2", "?", "<i8")


def open_table(path, **options):
    return Table(str(path), complete_options(str(path), TableOptions(**options)))


def list_refs(path, **options):
    return list(open_table(path, **options).list())


def read_pixels(table):
    return [np.load(io.BytesIO(table.read(ref, 10**6))) for ref in table.list()]


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_npy_files(tmp_path, name):
    table = open_table(WRITERS[name](tmp_path / name, {"X": IMAGES, "name": NAMES}))
    refs = list(table.list())
    assert kind_of(table.path).is_table
    assert table.options.columns == {"image": "X", "path": "name"}
    assert [ref.path for ref in refs] == NAMES
    assert [ref.annotations.row for ref in refs[:2]] == [f"{name}:0", f"{name}:1"]
    for ref, pixels in zip(refs, IMAGES, strict=True):
        file = io.BytesIO()
        np.lib.format.write_array(file, pixels, (1, 0))
        assert table.read(ref, 10**6) == file.getvalue()
        assert table.read(ref, 70) == file.getvalue()[:70]
        assert ref.size_bytes == len(file.getvalue())
    assert np.array_equal(read_pixels(table)[::-1], IMAGES[::-1])


@pytest.mark.parametrize("name", FORMATS)
def test_every_type_of_numbers(tmp_path, name):
    arrays = {f"x{number}": IMAGES.astype(dtype) for number, dtype in enumerate(DTYPES)}
    path = WRITERS[name](tmp_path / name, arrays)
    for image, values in arrays.items():
        pixels = read_pixels(open_table(path, columns={"image": image}))
        assert np.array_equal(pixels, values)
        assert pixels[0].dtype == values.dtype.newbyteorder("<")


@pytest.mark.e2e
def test_arrays_beside_the_images(tmp_path):
    count = len(IMAGES)
    arrays = {
        "train/x": IMAGES,
        "train/y": np.arange(count) % 3,
        "train/score": np.linspace(0, 1, count, dtype=np.float32)[:, None],
        "train/flag": np.arange(count) % 2 == 0,
        "train/hot": np.eye(5, dtype=np.float32)[np.arange(count) % 5],
        "train/features": np.zeros((count, 8)),
        "test/y": np.arange(count),
        "short": np.arange(count - 1),
        "single": np.float32(1),
        "complex": np.zeros(count, np.complex64),
    }
    path = write_hdf5(tmp_path / "a.h5", arrays)
    table = open_table(path)
    assert table.options.columns == {
        **{"image": "train/x", "path": None, "label": "train/y"},
        **{"train_flag": "train/flag", "train_hot": "train/hot", "train_score": "train/score"},
    }
    types = {"train_flag": "int", "train_hot": "int", "train_score": "float"}
    assert table.options.column_types == types
    last = list(table.list())[-1]
    assert (last.path, last.annotations.label, last.annotations.further) == (
        "a.h5/00000049",
        "1",
        (0, 4, 1.0),
    )
    asked = open_table(path, columns={"image": "train/x", "label": "test/y", "f": "train/features"})
    assert asked.options.column_types["f"] == "floats"
    assert next(iter(asked.list())).annotations.label == "0"


def test_the_images_of_training_are_taken(tmp_path):
    arrays = {"x_test": IMAGES[:9], "y_test": np.arange(9), "mask_train": IMAGES[..., 0]}
    arrays |= {"x_train": IMAGES, "y_train": np.arange(len(IMAGES))}
    path = write_npz(tmp_path / "mnist.npz", arrays)
    columns = {"image": "x_train", "path": None, "label": "y_train", "mask": "mask_train"}
    assert open_table(path).options.columns == columns
    other = open_table(path, columns={"image": "x_test"})
    assert other.options.columns == {"image": "x_test", "path": None, "label": "y_test"}
    assert np.array_equal(read_pixels(other), IMAGES[:9])
    mask = next(iter(open_table(path).list())).mask
    assert (mask.path, mask.location.inside) == ("mnist.npz/00000000", "mask_train")


def test_files_beside_an_npy_file(tmp_path):
    labels = np.array([name[:3] for name in NAMES])
    arrays = {"X_train": IMAGES, "y_train": labels, "y_test": labels[:5], "names": NAMES}
    path = write_npy(tmp_path / "X_train.npy", arrays)
    table = open_table(path)
    assert table.options.columns == {"image": "X_train.npy", "path": None, "label": "y_train.npy"}
    refs = list(table.list())
    assert [ref.annotations.label for ref in refs] == labels.tolist()
    assert np.array_equal(read_pixels(table), IMAGES)
    named = list_refs(path, columns={"path": "names.npy", "label": None})
    assert [ref.path for ref in named] == NAMES
    assert named[0].annotations.label is None
    with pytest.raises(UserError, match=r"'y_test.npy' as label, which has 5 rows, but the images"):
        list_refs(path, columns={"label": "y_test.npy"})


@pytest.mark.e2e
def test_files_in_rows(tmp_path):
    contents = [b"\xff\xd8\xff" + bytes(row) for row in range(9)]
    for settings in ({}, {"chunks": (4,), "compression": "gzip"}):
        path = write_files(tmp_path / f"{len(settings)}.h5", "jpeg", contents, **settings)
        table = open_table(path)
        refs = list(table.list())
        assert [ref.size_bytes for ref in refs] == [len(each) for each in contents]
        assert [table.read(ref, 99) for ref in refs] == contents
    fixed = write_npz(tmp_path / "s.npz", {"jpg": np.array([b"\xff\xd8\xffa", b"\xff\xd8\xff"])})
    table = open_table(fixed)
    assert [table.read(ref, 99) for ref in table.list()] == [b"\xff\xd8\xffa", b"\xff\xd8\xff"]


@pytest.mark.e2e
def test_classes_that_hdf5_names(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = IMAGES
        kind = h5py.enum_dtype({"cat": 0, "dog": 1})
        file.create_dataset("label", data=np.arange(len(IMAGES)) % 3, dtype=kind)
        file.create_dataset("who", data=[f"é{row}" for row in range(len(IMAGES))])
        file.create_dataset("site", data=np.array([b"a", b"bc"] * 25))
    refs = list_refs(tmp_path / "a.h5")
    assert [ref.annotations.label for ref in refs[:3]] == ["cat", "dog", "2"]
    assert [ref.annotations.further for ref in refs[:2]] == [("a", "é0"), ("bc", "é1")]


@pytest.mark.e2e
def test_empty_labels_and_names(tmp_path):
    labels = np.array([1.0, np.nan, 2.0])
    names = ["a.jpg", "", "../b.jpg"]
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES[:3], "y": labels, "file": names})
    refs = list_refs(path)
    assert [ref.annotations.label for ref in refs] == ["1", "", "2"]
    assert [ref.path for ref in refs] == ["a.jpg", "a.h5/00000001", "../b.jpg"]


@pytest.mark.parametrize(
    ("arrays", "columns", "message"),
    [
        ({"y": np.arange(3)}, {}, r"holds no images \(y: int64 \[3\]\); images are arrays"),
        ({"c": np.zeros((2, 2, 2), complex)}, {}, r"\(c: complex128 \[2, 2, 2\]\)"),
        ({"s": np.full((2, 2, 2), b"a")}, {}, r"\(s: text \[2, 2, 2\]\)"),
        ({}, {}, "it has no array"),
        ({"x": IMAGES[:0]}, {}, "has no row that can be read"),
        ({"x": IMAGES, "y": np.arange(3)}, {"image": "y"}, r"as image, but it is int64 \[3\]"),
        ({"pics": IMAGES}, {"image": "pic"}, "no such array; did you mean pics.*known: pics"),
        ({"x": IMAGES}, {"label": "z"}, "names 'z' as label, but .* has no such column"),
        (
            {"x": IMAGES, "y": np.arange(3)},
            {"label": "y"},
            "'y' as label, which has 3 rows, but the images 'x' have 50",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, arrays, columns, message):
    with pytest.raises(UserError, match=message):
        list_refs(write_npz(tmp_path / "a.npz", arrays), columns=columns)


def test_objects_are_never_unpickled(tmp_path):
    objects = np.array([{}, 3, None], object)
    path = write_npz(tmp_path / "a.npz", {"x": IMAGES[:3], "other": objects})
    assert open_table(path).options.columns == {"image": "x", "path": None}
    path = write_npz(tmp_path / "a.npz", {"x": IMAGES[:3], "y": objects})
    with pytest.raises(UserError, match="labels 'y' cannot be read: they are of Python objects"):
        list_refs(path)
    with pytest.raises(UserError, match=r"'y' as label, but in .* it is of Python objects, which"):
        list_refs(path, columns={"label": "y"})
    np.save(tmp_path / "o.npy", np.full((3, 3, 3), None))
    with pytest.raises(UserError, match=r"holds no images \(o.npy: of Python objects"):
        list_refs(tmp_path / "o.npy")


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_none_or_is_cut(tmp_path, name):
    with pytest.raises(UserError, match="does not exist; give one that exists"):
        list_refs(tmp_path / name)
    path = WRITERS[name](tmp_path / name, {"X": IMAGES})
    if path.is_file():
        path.write_bytes(path.read_bytes()[:-2000])
        with pytest.raises(UserError, match=f"The arrays in .*{name}' cannot be read: "):
            list_refs(path)


def test_a_cut_array_has_some_rows(tmp_path):
    path = write_npy(tmp_path / "x.npy", {"x": IMAGES})
    path.write_bytes(path.read_bytes()[: -10 * IMAGES[0].nbytes - 1])
    table = open_table(path)
    refs = list(table.list())
    assert np.array_equal(np.load(io.BytesIO(table.read(refs[38], 10**6))), IMAGES[38])
    for ref in refs[39:]:
        with pytest.raises(BadImage, match=r"x.npy' ends within it") as error:
            table.read(ref, 10**6)
        assert error.value.reason == CORRUPT


@pytest.mark.e2e
def test_columns_that_are_damaged_in_part(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = IMAGES
        file.create_dataset("y", data=np.arange(50), chunks=(16,), compression="gzip")
        damaged = file["y"].id.get_chunk_info_by_coord((32,))
    data = bytearray(path.read_bytes())
    data[damaged.byte_offset + 4] ^= 255
    path.write_bytes(data)
    refs = list_refs(path)
    assert [ref.problem for ref in refs] == [None] * 32 + ["bad_row"] * 16 + [None] * 2
    assert refs[40].message.startswith("a.h5:40: '/y' cannot be read (Can't ")


def test_a_place_that_is_no_more(tmp_path):
    path = write_npz(tmp_path / "a.npz", {"x": IMAGES})
    table = open_table(path)
    ref = list(table.list())[-1]
    write_npz(path, {"x": IMAGES[:9]})
    changed = dataclasses.replace(ref, modified_ns=ref.modified_ns + 1)
    with pytest.raises(BadImage, match=r"has no row 49 of 'x' now"):
        table.read(changed, 99)


def test_names_of_arrays():
    names = ["train/X", "x_train", "train_set_x", "X-test.npy", "images", "valid/images"]
    assert [name_of(name) for name in names] == ["x", "x", "x", "x", "images", "images"]
    assert [split_of(name) for name in names] == ["train", "train", "train", "test", "", "valid"]


def test_a_damaged_text_is_a_bad_row(tmp_path):
    path = write_npz(tmp_path / "a.npz", {"x": IMAGES, "y": np.array(["cat", "dog"] * 25)})
    place = np.array("cat").tobytes() + np.array("dog").tobytes()
    path.write_bytes(path.read_bytes().replace(place, b"\xff" * 4 + place[4:], 1))
    refs = list_refs(path)
    assert [ref.annotations.label for ref in refs if not ref.problem] == [
        *["dog", "cat"] * 24,
        "dog",
    ]
    problems = [ref.message for ref in refs if ref.problem]
    assert problems == ["a.npz:0: 'y' has a value that is not text"]


@pytest.mark.whole
@pytest.mark.parametrize("columns", [{}, {"image": "x"}])
@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (784, "; if its rows are images, save 'x' as .reshape(-1, 28, 28)."),
        (
            3072,
            "; if its rows are images, save 'x' as .reshape(-1, 32, 32, 3), or "
            ".reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) if all red values come first.",
        ),
        (49, "such as JPEGs."),
        (785, "such as JPEGs."),
    ],
)
def test_flat_images_are_refused_with_the_shape_to_save(tmp_path, columns, values, hint):
    arrays = {"x": np.zeros((4, values), np.uint8), "y": np.arange(4)}
    path = write_npz(tmp_path / "a.npz", arrays)
    with pytest.raises(UserError) as caught:
        list(read_array_rows(str(path), columns))
    assert hint in str(caught.value)
    assert f"uint8 [4, {values}]" in str(caught.value)


def test_images_that_are_not_read_are_said(tmp_path):
    """As where each class has an array of its own; masks are asked about elsewhere."""
    arrays = {"cats": IMAGES, "dogs": IMAGES, "mask": IMAGES[..., 0]}
    path = write_npz(tmp_path / "a.npz", arrays)
    with collect() as notes:
        list(read_array_rows(str(path), {"image": "dogs"}))
    assert notes.noticed == [
        "a.npz: images are 'dogs', and other arrays of images are not read: 'cats'; "
        "ingest.columns={image: …} takes another"
    ]
