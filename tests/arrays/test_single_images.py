"""Files with an array an image: they are read as folders of images, or refused; never guessed."""

import h5py
import numpy as np
import pytest

from image_pipeline.components.arrays.array_tables import read_array_rows
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.understood import collect
from tests.array_files import IMAGES, WRITERS, write_npy, write_npz
from tests.arrays.test_array_tables import list_refs, open_table, read_pixels

pytestmark = pytest.mark.unit

CLASSES = {"cat/0": IMAGES[0], "cat/1": IMAGES[1][:4], "dog/0": IMAGES[2]}


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["contiguous.h5", "folder.zarr", "file.zarr.zip"])
def test_a_group_is_a_class_and_an_array_an_image(tmp_path, name):
    table = open_table(WRITERS[name](tmp_path / name, CLASSES))
    refs = list(table.list())
    assert [ref.path for ref in refs] == ["cat/0", "cat/1", "dog/0"]
    assert [ref.annotations.label for ref in refs] == ["cat", "cat", "dog"]
    for pixels, stored in zip(read_pixels(table), CLASSES.values(), strict=True):
        assert np.array_equal(pixels, stored)


@pytest.mark.parametrize(
    ("image", "stored"),
    [
        (IMAGES[0], IMAGES[0]),
        (IMAGES[0][..., :1], IMAGES[0][..., :1]),
        (np.zeros((8, 9, 4), np.float32), np.zeros((8, 9, 4), np.float32)),
        (np.zeros((1, 8, 9, 13), np.uint16), np.zeros((8, 9, 13), np.uint16)),
        (np.zeros((1, 8, 9), np.uint8), np.zeros((8, 9), np.uint8)),
    ],
)
def test_an_array_of_one_image(tmp_path, image, stored):
    arrays = {"a": image, "deep/cat/b": image + 1, "dog/c": image + 2}
    table = open_table(write_npz(tmp_path / "a.npz", arrays))
    assert [ref.annotations.label for ref in table.list()] == ["", "cat", "dog"]
    for number, pixels in enumerate(read_pixels(table)):
        assert pixels.dtype == stored.dtype
        assert np.array_equal(pixels, stored + number)
    for name in ("x", "photo"):
        table = open_table(write_npz(tmp_path / "b.npz", {name: image, "y": np.array([7])}))
        assert [ref.annotations.label for ref in table.list()] == ["7"]
        assert np.array_equal(read_pixels(table), stored[np.newaxis])


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (IMAGES[0][:4, :5], "x.npz: 'X' is one image, uint8 [4, 5, 3]; N gray images as narrow as"),
        (np.zeros((1, 8, 9), np.uint8), None),
        (np.zeros((2, 8, 9, 3), np.uint8), None),
    ],
)
def test_that_an_array_is_taken_as_one_image_is_said(tmp_path, array, shown):
    with collect() as notes:
        list(read_array_rows(str(write_npz(tmp_path / "x.npz", {"X": array})), {}))
    said = [each for each in notes.understood if "is one image" in each]
    assert [each[: len(shown or "")] for each in said] == ([shown] if shown else [])


def test_first_groups_are_splits_if_all_are_called_so(tmp_path):
    arrays = {f"{split}/{name}": CLASSES[name] for split in ("Train", "val") for name in CLASSES}
    path = write_npz(tmp_path / "a.npz", arrays)
    with collect() as notes:
        refs = list_refs(path)
    assert [(ref.annotations.split, ref.annotations.label) for ref in refs] == [
        *[("train", "cat")] * 2,
        ("train", "dog"),
        *[("eval", "cat")] * 2,
        ("eval", "dog"),
    ]
    assert notes.understood[0] == (
        "a.npz: each array is one image, its first group its split, its last group its class"
    )
    vehicles = write_npz(tmp_path / "b.npz", {"train/0": IMAGES[0], "bus/0": IMAGES[1]})
    refs = list_refs(vehicles)
    assert [ref.annotations.label for ref in refs] == ["train", "bus"]
    assert [ref.annotations.split for ref in refs] == [None, None]


def test_without_groups_there_are_no_classes(tmp_path):
    path = write_npz(tmp_path / "a.npz", {"arr_0": IMAGES[0], "arr_1": IMAGES[1]})
    with collect() as notes:
        refs = list_refs(path)
    assert [(ref.path, ref.annotations.label) for ref in refs] == [("arr_0", None), ("arr_1", None)]
    assert notes.understood == ["a.npz: each array is one image"]


def test_an_image_beside_an_array_of_many_is_not_read(tmp_path):
    boxes = np.zeros((50, 5, 4), np.float32)
    path = write_npz(tmp_path / "a.npz", {"mean": IMAGES[0], "pics": IMAGES, "boxes": boxes})
    with collect() as notes:
        assert len(list(read_array_rows(str(path), {}))) == 50
    assert notes.noticed == [
        "a.npz: images are 'pics', and other arrays of images are not read: 'mean', 'boxes'; "
        "ingest.columns={image: …} takes another"
    ]
    said = (
        r"'boxes' as boxes, which is one image, float32 \[50, 5, 4\], but the images 'pics' have 50"
    )
    with pytest.raises(UserError, match=said):
        list_refs(path, columns={"boxes": "boxes"})


SPECTRUM = np.zeros((8, 9, 13), np.uint8)
GRAY = np.zeros((8, 9), np.uint8)


@pytest.mark.parametrize(
    ("arrays", "first"),
    [
        ({"cat/0": SPECTRUM, "cat/1": SPECTRUM}, "'cat/0' (uint8 [8, 9, 13])"),
        (
            {"cat/0": IMAGES[0], "cat/1": IMAGES[1], "y": np.arange(2)},
            "'cat/0' (one image, uint8 [",
        ),
        ({"cat/0": IMAGES[0], "cat/1": IMAGES[1], "cat/2": GRAY}, "'cat/0' (one image, uint8 ["),
        ({"a/image": IMAGES[0], "b/image": IMAGES[1]}, "'a/image' (one image, uint8 [6, 5, 3])"),
    ],
)
def test_arrays_that_may_be_images_or_not_are_asked_about(tmp_path, arrays, first):
    path = write_npz(tmp_path / "a.npz", arrays)
    with pytest.raises(UserError) as caught:
        list_refs(path)
    assert f"has 2 arrays that may be its images, such as {first}" in str(caught.value)
    assert "by ingest.columns={image: …}, save them so, or read the file by" in str(caught.value)
    named = next(iter(arrays))
    rows = 8 if arrays[named] is SPECTRUM else 1
    assert len(list_refs(path, columns={"image": named, "label": None})) == rows


def test_an_array_that_a_column_names_is_not_asked_about(tmp_path):
    path = write_npy(tmp_path / "a.npy", {"a": IMAGES[..., 0], "b": IMAGES[..., 1]})
    masks = [ref.mask.location.file for ref in list_refs(path, columns={"mask": "b.npy"})]
    assert masks == [str(tmp_path / "b.npy")] * 50


def test_many_gray_images_without_channels_are_refused_in_a_short_sentence(tmp_path):
    path = write_npz(tmp_path / "a.npz", {f"cat/{number}": GRAY for number in range(2000)})
    with pytest.raises(UserError) as caught:
        list_refs(path)
    assert str(caught.value).endswith(
        "cat/2: uint8 [8, 9]; … 2,000 in all); images are arrays [N, height, width(, channels)] of "
        "numbers, arrays [height, width, 1, 3 or 4] of one image each, or N files such as JPEGs; "
        "if each is one image, save it as [height, width, 1]. A generator reads what is stored "
        "otherwise (docs/generators.md)."
    )


@pytest.mark.e2e
def test_a_damaged_chunk_costs_its_image(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, image in CLASSES.items():
            file.create_dataset(name, data=image, chunks=(2, 5, 3), compression="gzip")
        damaged = file["cat/1"].id.get_chunk_info_by_coord((2, 0, 0))
    data = bytearray(path.read_bytes())
    data[damaged.byte_offset + 4] ^= 255
    path.write_bytes(data)
    table = open_table(path)
    first, second, third = table.list()
    for ref, name in ((first, "cat/0"), (third, "dog/0")):
        assert table.read(ref, 10**6).endswith(CLASSES[name].tobytes())
    with pytest.raises(BadImage, match=r"'/cat/1' cannot be read"):
        table.read(second, 10**6)
