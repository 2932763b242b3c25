"""Items become plain cells and the bytes of image files; anything else is named."""

import pathlib

import numpy as np
import pytest

from image_pipeline.components.generators.generator_items import encode_record
from image_pipeline.components.generators.generator_worker import WrongItem
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

COLUMNS = ("image", "photo", "mask")


def _encode(item):
    cells, pieces = encode_record(item, COLUMNS)
    return cells, {name: b"".join(each) for name, each in pieces.items()}


def test_an_array_is_an_npy_file(tmp_path):
    for array in (draw(1), draw(1)[::-1, ::2], np.asfortranarray(draw(2)), np.ones((2, 3), ">u2")):
        cells, images = _encode({"image": array})
        (tmp_path / "a.npy").write_bytes(images["image"])
        loaded = np.load(tmp_path / "a.npy")
        assert cells == {} and loaded.dtype == array.dtype
        np.testing.assert_array_equal(loaded, array)


def test_bytes_are_files_in_columns_of_images_and_text_elsewhere():
    data = encode_png(draw(1))
    cells, images = _encode({"Photo": data, "mask": memoryview(b"xy"), "label": b"cat\xff"})
    assert images == {"Photo": data, "mask": b"xy"}
    assert cells == {"label": "cat\udcff"}


def test_a_pair_is_an_image_and_its_label():
    cells, images = _encode((draw(1), np.int64(3)))
    assert cells == {"label": 3} and type(cells["label"]) is int and list(images) == ["image"]


def test_cells_are_plain():
    item = {"a": np.float32(0.5), "b": np.array([1, 2]), "c": ("x", np.int8(1)), "d": None}
    item |= {"boxes": [{"bbox": np.array([1, 2, 3, 4]), "category": "cat"}], "e": np.array(7)}
    assert _encode(item)[0] == {
        **{"a": 0.5, "b": [1, 2], "c": ["x", 1], "d": None, "e": 7},
        "boxes": [{"bbox": [1, 2, 3, 4], "category": "cat"}],
    }


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (5, "must be a dict by columns' names or a pair .image, label., got int"),
        ((1, 2, 3), "got tuple of 3"),
        ({1: 2}, "got dict of 1"),
        ({"image": {1, 2}}, "'image' must be an array, a number, .* got set"),
        ({"when": pathlib.Path("x")}, "'when' must be .* got pathlib.*Path"),
        ({"image": np.array([["a", None]], object)}, "'image' must be of numbers, got object"),
    ],
)
def test_what_is_no_item_is_named(item, message):
    with pytest.raises(WrongItem, match=message):
        encode_record(item, COLUMNS)
