"""Masks as they are stored: class ids of the options' table, of their stored image's size."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.mask_file import BAD_MASK
from image_pipeline.components.images.prepare import PreparedImage
from image_pipeline.components.labels.masks import MaskOptions, encode_mask, prepare_mask
from tests.images.test_mask_file import LEVELS, in_palette, make_image, save, write_png

pytestmark = pytest.mark.unit

COLORS = np.array([[[128, 128, 255]] * 3, [[0, 0, 0], [255, 0, 0], [128, 128, 255]]])


def _prepare(pixels, image=None, **options):
    data = write_png(pixels, 8, 2 if pixels.ndim == 3 else 0)
    return prepare_mask(data, image or make_image(*pixels.shape[:2]), MaskOptions(**options))


def _ids(mask):
    """The pixels of a stored mask, which must be a gray 8-bit PNG."""
    assert mask.stored[12:16] == b"IHDR" and mask.stored[24:26] == b"\x08\x00"
    return cv2.imdecode(np.frombuffer(mask.stored, np.uint8), cv2.IMREAD_UNCHANGED)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[0, 1, 2], [3, 255, 0]]),
        ({"classes": ["a", "b", "c", "d"]}, [[0, 1, 2], [3, 255, 0]]),
        ({"classes": {"road": 3, "rest": [0, 1, 2]}}, [[1, 1, 1], [0, 255, 1]]),
        ({"classes": {"a": [1, 3], "b": 255, "c": (2, 0)}}, [[2, 0, 2], [0, 1, 2]]),
        ({"classes": {"a": 1}, "ignored": [0, 2, 3, 255]}, [[255, 0, 255], [255, 255, 255]]),
        ({"ignored": [0, 255]}, [[255, 1, 2], [3, 255, 255]]),
    ],
)
def test_each_level_gets_its_id(options, expected):
    mask = _prepare(LEVELS, **options)
    np.testing.assert_array_equal(_ids(mask), expected)
    ids, counts = np.unique(expected, return_counts=True)
    assert (mask.row["mask_ids"], mask.row["mask_pixels"]) == (ids.tolist(), counts.tolist())


@pytest.mark.parametrize(
    ("options", "level", "row", "column"),
    [
        ({"ignored": []}, 255, 1, 1),
        ({"classes": ["a", "b", "c"]}, 3, 1, 0),
        ({"classes": {"a": [0, 2, 3]}}, 1, 0, 1),
        ({"classes": {"a": [0, 1, 2, 3]}, "ignored": [7]}, 255, 1, 1),
    ],
)
def test_a_level_that_is_neither_class_nor_ignored_is_named(options, level, row, column):
    with pytest.raises(BadImage) as caught:
        _prepare(LEVELS, **options)
    assert caught.value.args == (
        BAD_MASK,
        f"has the level {level} at row {row}, column {column}, which is neither in "
        "ingest.masks.classes nor in ingest.masks.ignored",
    )


def test_sixteen_bits_have_levels_of_their_own():
    levels = np.array([[0, 1000, 65535]])
    options = MaskOptions(classes={"a": 1000, "b": 65535}, ignored=(0,))
    mask = prepare_mask(write_png(levels, 16), make_image(1, 3), options)
    np.testing.assert_array_equal(_ids(mask), [[255, 0, 1]])


def test_each_colour_gets_its_id():
    options = {"classes": {"sky": "#8080ff", "wall": ["#000000", "#010101"]}}
    mask = _prepare(COLORS, **options, ignored=["#FF0000"])
    np.testing.assert_array_equal(_ids(mask), [[0, 0, 0], [1, 255, 0]])
    with pytest.raises(BadImage, match=r"has the colour '#ff0000' at row 1, column 1, which is"):
        _prepare(COLORS, **options)


def test_a_palette_may_be_read_by_its_colours():
    data = save(in_palette(np.array([[0, 1, 1]])))
    first, second = "#00254a", "#6f94b9"
    options = MaskOptions(classes={"b": second, "a": first})
    np.testing.assert_array_equal(_ids(prepare_mask(data, make_image(1, 3), options)), [[1, 0, 0]])


@given(st.data())
def test_masks_shrink_and_grow_with_their_images_to_their_nearest_pixels(data):
    height, width, new_height, new_width = (data.draw(st.integers(1, 12)) for _ in range(4))
    levels = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 5, (height, width))
    image = PreparedImage(b"", "png", new_height, new_width, 3, "png", height, width, 1, ())
    stored = _ids(_prepare(levels, image))
    for row in range(new_height):
        for column in range(new_width):
            # The pixel in which the middle of the new one lies.
            y = int((row + 0.5) * height / new_height + 1e-9)
            x = int((column + 0.5) * width / new_width + 1e-9)
            assert stored[row, column] == levels[y, x]


def test_equal_masks_are_equal_bytes_whatever_file_they_come_from():
    palette = prepare_mask(save(in_palette(LEVELS)), make_image(), MaskOptions())
    assert palette == _prepare(LEVELS)
    assert palette.stored == encode_mask(LEVELS.astype(np.uint8))


def test_names_stand_in_the_order_of_their_ids():
    assert MaskOptions().names is None
    assert MaskOptions(classes=["b", "a"]).names == ("b", "a")
    assert MaskOptions(classes={"b": 7, "a": [0, 1]}).names == ("b", "a")
