"""Boxes of every format and orientation come to the same shares of the upright image."""

import collections
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.labels import boxes as labels
from image_pipeline.components.labels.boxes import BoxAnnotation, BoxOptions

pytestmark = pytest.mark.unit

OPTIONS = BoxOptions(classes=("cat", "dog"))
Found = collections.namedtuple("Found", "xmin xmax ymin ymax name id area is_crowd notes")


def prepare_boxes(*said):
    fitted = labels.prepare_boxes(*said)
    return Found(*fitted.features, fitted.notes)


def draw(width=40, height=20, orientation=1):
    """An image of a file with these sides, stored at half its size."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "JPEG", exif=exif)
    options = PrepareOptions(resize="shorter_side", size_px=min(width, height) // 2)
    return prepare_image(file.getvalue(), options)


def place(numbers, options=OPTIONS, image=None, size=()):
    return prepare_boxes([BoxAnnotation(numbers, "dog")], size, image or draw(), options)


@pytest.mark.parametrize(
    ("format_", "numbers"),
    [
        ("xywh", (10, 5, 20, 10)),
        ("xyxy", (10, 5, 30, 15)),
        ("yxyx", (5, 10, 15, 30)),
        ("center_xywh", (20, 10, 20, 10)),
        ("rel_xywh", (0.25, 0.25, 0.5, 0.5)),
        ("rel_xyxy", (0.25, 0.25, 0.75, 0.75)),
        ("rel_yxyx", (0.25, 0.25, 0.75, 0.75)),
        ("rel_center_xywh", (0.5, 0.5, 0.5, 0.5)),
    ],
)
def test_every_format_is_one_box(format_, numbers):
    found = place(numbers, BoxOptions(format=format_, classes=("cat", "dog")))
    assert (found.xmin, found.xmax) == ((0.25,), (0.75,))
    assert (found.ymin, found.ymax) == ((0.25,), (0.75,))
    assert (found.name, found.id, found.is_crowd) == (("dog",), (2,), (0,))
    assert found.area == (10 * 5,)  # of 20 x 10 stored pixels
    assert found.notes == ()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("said_of", ["the file", "the upright photo", "the file, by its size"])
def test_boxes_turn_with_their_photo(orientation, said_of):
    width, height, (x, y, w, h) = 40, 20, (6, 2, 10, 4)
    drawn = np.zeros((height, width), np.uint8)
    drawn[y : y + h, x : x + w] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(drawn).save(file, "PNG", exif=exif)
    file.seek(0)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(file)))
    rows, columns = np.nonzero(upright)
    top, left, bottom, right = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
    image = draw(width, height, orientation)
    options, size, numbers = OPTIONS, (), (x, y, w, h)
    if said_of == "the file":
        options = BoxOptions(classes=("cat", "dog"), orientation="stored")
    elif said_of == "the upright photo":
        numbers = (left, top, right - left, bottom - top)
        size = upright.shape[::-1]
    else:
        size = (width, height)
        if orientation in (2, 3, 4):  # A size does not tell these.
            options = BoxOptions(classes=("cat", "dog"), orientation="stored")
    found = prepare_boxes([BoxAnnotation(tuple(map(float, numbers)), "cat")], size, image, options)
    sides = [*found.ymin, *found.xmin, *found.ymax, *found.xmax]
    tall, wide = upright.shape
    np.testing.assert_allclose(
        sides, [top / tall, left / wide, bottom / tall, right / wide], atol=1e-12
    )


def test_a_stated_size_that_the_image_has_not_is_refused():
    with pytest.raises(BadImage, match="boxes are for an image of 41x20 px, but it has 40x20"):
        place((1, 1, 2, 2), size=(41, 20))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("numbers", "name", "problem"),
    [
        ((5, 5, 0, 3), "cat", "has no area"),
        ((5, 5, -3, 3), "cat", "has no area"),
        ((40, 5, 3, 3), "cat", "lies outside of the image"),
        ((5, -9, 3, 9), "cat", "lies outside of the image"),
        ((5, 5, 3, 3), "cow", "is of a class that is not one of ingest.boxes.classes"),
        ((math.nan, 5, 3, 3), "cat", "has a side that is not a number"),
        ((1e308, 5, 1e308, 3), "cat", "has a side that is not a number"),
    ],
)
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_what_is_no_box_is_refused_or_dropped(numbers, name, problem, orientation):
    image = draw(40, 20, orientation) if orientation < 5 else draw(20, 40, orientation)
    boxes = [BoxAnnotation((1.0, 1.0, 2.0, 2.0), "dog"), BoxAnnotation(numbers, name)]
    said = {"classes": ("cat", "dog"), "orientation": "stored"}
    if orientation == 6:
        boxes[1] = BoxAnnotation((numbers[1], numbers[0], numbers[3], numbers[2]), name)
    with pytest.raises(BadImage, match=f"box 1, {name} .*, {problem}") as raised:
        prepare_boxes(boxes, (), image, BoxOptions(**said))
    assert raised.value.reason == "bad_box"
    found = prepare_boxes(boxes, (), image, BoxOptions(**said, bad_boxes="drop"))
    assert (found.name, found.notes) == (("dog",), ("dropped_boxes:1",))


def test_a_box_that_is_partly_outside_is_clipped_and_noted():
    found = place((-10, 15, 30, 10))
    assert (found.xmin, found.ymin, found.xmax, found.ymax) == ((0,), (0.75,), (0.5,), (1,))
    assert found.notes == ("clipped_boxes:1",)
    rounded = place((0, 0, 40.4, 20))  # Less than half a pixel comes of rounding.
    assert (rounded.xmax, rounded.notes) == ((1,), ())


@pytest.mark.parametrize(("beyond_px", "notes"), [(0.4, ()), (0.6, ("clipped_boxes:1",))])
@pytest.mark.parametrize("orientation", [1, 6])
def test_half_a_pixel_is_one_of_the_upright_photo(beyond_px, notes, orientation):
    sides = (40, 20) if orientation == 1 else (20, 40)
    for side in (0, 1):
        numbers = [2, 2, 8, 8]
        numbers[2 + side] = sides[side] - 2 + beyond_px
        found = place(tuple(numbers), image=draw(orientation=orientation))
        assert found.notes == notes


@pytest.mark.parametrize(("left", "orientation"), [(10, 1), (0, 3)])
def test_a_box_that_records_cannot_tell_from_a_line_has_no_area(left, orientation):
    options = OPTIONS.model_copy(update={"orientation": "stored"})
    with pytest.raises(BadImage, match="has no area"):
        place((left, 5, 1e-7, 10), options, draw(orientation=orientation))


def test_no_box_is_no_problem():
    found = prepare_boxes([], (), draw(), OPTIONS)
    assert (found.xmin, found.name, found.notes) == ((), (), ())


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.integers(1, 8))
def test_a_turned_box_is_inside_and_as_large(sides, orientation):
    left, right = sorted(sides[:2])
    top, bottom = sorted(sides[2:])
    options = BoxOptions(
        format="rel_xyxy", classes=("cat",), orientation="stored", bad_boxes="drop"
    )
    image = draw(40, 20, orientation)
    found = prepare_boxes([BoxAnnotation((left, top, right, bottom), "cat")], (), image, options)
    if found.name:
        assert 0 <= found.xmin[0] < found.xmax[0] <= 1
        assert 0 <= found.ymin[0] < found.ymax[0] <= 1
        share = (found.xmax[0] - found.xmin[0]) * (found.ymax[0] - found.ymin[0])
        assert share == pytest.approx((right - left) * (bottom - top), abs=1e-12)
        assert found.area[0] == pytest.approx(share * image.width * image.height)
