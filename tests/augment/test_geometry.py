import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.geometry import (
    affine_coordinates,
    flip_horizontal,
    flip_vertical,
    inverse_rotation,
    mirror,
    pad_and_crop,
    rotate,
    warp,
)
from image_pipeline.components.augment.options import (
    FlipHorizontal,
    FlipVertical,
    PadAndCrop,
    Rotate,
)
from image_pipeline.components.dataset.record import IGNORED
from tests.augment.test_warp import level_at, sample
from tests.augment.ways import make_batch, make_keys, run_in_all_ways

pytestmark = pytest.mark.unit

BOXES = [[0.125, 0.25, 0.5, 0.375], [0.0, 0.0, 0.0, 0.0]]
# The axis of an image that each flip reverses.
FLIPS = [(flip_horizontal, FlipHorizontal, 1), (flip_vertical, FlipVertical, 0)]


def flip_box(box, axis):
    top, left, bottom, right = box
    if not (bottom > top and right > left):
        return [0, 0, 0, 0]
    return [1 - bottom, left, 1 - top, right] if axis == 0 else [top, 1 - right, bottom, 1 - left]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("step", "options", "axis"), FLIPS)
def test_chosen_images_are_mirrored_with_all_they_have(step, options, axis, probability, channels):
    batch, keys = make_batch(9, 7, 5, channels, with_masks=True, boxes=BOXES), make_keys(9)
    flipped = run_in_all_ways(step, batch, keys, options(probability=probability))
    chosen = draws.uniform(keys, 1)[:, 0].numpy() < probability
    assert probability in (0, 1) or 0 < chosen.sum() < 9
    for place in range(9):
        for before, after in ((batch.images, flipped.images), (batch.masks, flipped.masks)):
            image = before[place].numpy()
            expected = np.flip(image, axis) if chosen[place] else image
            np.testing.assert_array_equal(after[place], expected)
        boxes = [flip_box(box, axis) if chosen[place] else box for box in BOXES]
        np.testing.assert_array_equal(flipped.boxes[place], np.array(boxes, np.float32))


def test_mirror_takes_the_choice_from_its_caller():
    batch = make_batch(3, boxes=[[0.0, 0.0, 1.0, 0.25]])
    mirrored = mirror(batch, tf.constant([True, False, True]))
    np.testing.assert_array_equal(mirrored.images[0], batch.images[0, :, ::-1])
    np.testing.assert_array_equal(mirrored.images[1], batch.images[1])
    np.testing.assert_array_equal(mirrored.images[2], batch.images[2, :, ::-1])
    np.testing.assert_array_equal(mirrored.boxes[:, 0, 1], [0.75, 0.0, 0.75])
    assert mirrored.masks is None and mirrored.own_share is None


def pad_and_cut(image, pad_px, top, left, mode, fill):
    padding = ((pad_px, pad_px), (pad_px, pad_px), (0, 0))
    extra = {"constant_values": fill} if mode == "constant" else {}
    padded = np.pad(image, padding, mode, **extra)
    return padded[top : top + image.shape[0], left : left + image.shape[1]]


def draw_starts(keys, pad_px):
    """The first row and column taken out of each padded image."""
    return np.floor(draws.uniform(keys, 2).numpy() * (2 * pad_px + 1)).astype(int)


# A padding wider than the image is mirrored more than once.
@pytest.mark.parametrize("pad_px", [1, 4, 17])
@pytest.mark.parametrize(("mode", "fill"), [("reflect", 0), ("constant", 0), ("constant", 77)])
@pytest.mark.parametrize("size", [(7, 5, 3), (8, 8, 1), (1, 6, 3)])
def test_the_images_are_padded_and_cut_out(size, mode, fill, pad_px):
    options = PadAndCrop(pad_px=pad_px, mode=mode, fill=fill)
    batch, keys = make_batch(8, *size, with_masks=True), make_keys(8)
    cut = run_in_all_ways(pad_and_crop, batch, keys, options)
    for place, (top, left) in enumerate(draw_starts(keys, pad_px)):
        for before, after, level in (
            (batch.images, cut.images, fill),
            (batch.masks, cut.masks, IGNORED),
        ):
            expected = pad_and_cut(before[place].numpy(), pad_px, top, left, mode, level)
            np.testing.assert_array_equal(after[place], expected)


def test_every_place_is_drawn_equally_often():
    starts = draw_starts(make_keys(9000), 1)
    counts = np.bincount(starts[:, 0] * 3 + starts[:, 1])
    assert len(counts) == 9 and counts.min() > 850 and counts.max() < 1150
    # The drawn places are those that images show: a picture whose pixels tell where they stand.
    images = np.tile(np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1), (9000, 1, 1, 1))
    shown = pad_and_crop(Batch(tf.constant(images)), make_keys(9000), PadAndCrop(pad_px=1))
    np.testing.assert_array_equal(shown.images[:, 4, 4, 0], 27 + starts[:, 0] * 8 + starts[:, 1])


@given(st.integers(0, 2**32), st.sampled_from(["reflect", "constant"]))
def test_a_box_moves_with_what_it_shows(seed, mode):
    # One bright rectangle, rows 2 to 4, columns 4 to 5; a shift of 3 may push out half of it.
    images = np.zeros((4, 8, 8, 1), np.uint8)
    images[:, 2:5, 4:6] = 255
    boxes = tf.tile(tf.constant([[[2 / 8, 4 / 8, 5 / 8, 6 / 8]]]), [4, 1, 1])
    options = PadAndCrop(pad_px=3, mode="constant")
    keys = make_keys(4, seed)
    shown = pad_and_crop(Batch(tf.constant(images), boxes=boxes), keys, options)
    same = pad_and_crop(
        Batch(tf.constant(images), boxes=boxes), keys, PadAndCrop(pad_px=3, mode=mode)
    )
    np.testing.assert_array_equal(same.boxes, shown.boxes)
    for image, box in zip(shown.images.numpy(), shown.boxes.numpy()[:, 0], strict=True):
        rows, columns = np.nonzero(image[..., 0])
        expected = [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]
        np.testing.assert_array_equal(box * 8, expected)


def test_a_box_that_is_pushed_out_becomes_zeros():
    batch = make_batch(60, 8, 8, boxes=[[0.0, 0.0, 0.25, 0.25], [0.0, 0.0, 1.0, 1.0]])
    keys = make_keys(60)
    moved = run_in_all_ways(pad_and_crop, batch, keys, PadAndCrop(pad_px=4))
    starts = draw_starts(keys, 4) - 4
    out = (starts >= 2).any(axis=1)
    assert 0 < out.sum() < 60
    np.testing.assert_array_equal((moved.boxes[:, 0] == 0).all(axis=1), out)
    assert (moved.boxes[:, 1].max(axis=1) > 0).all()


def old_places(height, width, radians):
    """Where each new pixel stands in the old image, in steps of 1/256: {(y, x): (row, column)}."""
    bits = 31 - (16 * max(height, width) - 1).bit_length()
    cosine, sine = (round(f(radians) * 2**bits) / 2**bits for f in (math.cos, math.sin))
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    places = {}
    for y in range(height):
        for x in range(width):
            column = np.float32(cosine * (x - middle_x) - sine * (y - middle_y) + middle_x)
            row = np.float32(sine * (x - middle_x) + cosine * (y - middle_y) + middle_y)
            places[y, x] = (float(np.round(row * 256)) / 256, float(np.round(column * 256)) / 256)
    return places


@pytest.mark.parametrize("degrees", [15.0, 180.0])
@pytest.mark.parametrize(("mode", "fill"), [("reflect", 0), ("constant", 0), ("constant", 99)])
@pytest.mark.parametrize("size", [(7, 5, 3), (8, 8, 1)])
def test_every_image_is_turned_by_an_angle_of_its_own(size, mode, fill, degrees):
    options = Rotate(degrees=degrees, mode=mode, fill=fill)
    batch, keys = make_batch(6, *size, with_masks=True), make_keys(6)
    turned = run_in_all_ways(rotate, batch, keys, options)
    angles = (2 * draws.uniform(keys, 1)[:, 0].numpy().astype(float) - 1) * math.radians(degrees)
    assert len(set(angles)) == 6 and (angles < 0).any() and (angles > 0).any()
    for place, angle in enumerate(angles):
        image, mask = batch.images[place].numpy(), batch.masks[place].numpy()
        for new, (row, column) in old_places(*size[:2], angle).items():
            expected = np.round(sample(image, row, column, mode, fill))
            np.testing.assert_array_equal(turned.images[place][new], expected)
            nearest = (int(np.floor(row + 0.5)), int(np.floor(column + 0.5)))
            assert turned.masks[place][new] == level_at(mask, *nearest, mode, IGNORED)


@pytest.mark.parametrize("turns", [-2, -1, 0, 1, 2, 3])
def test_positive_angles_turn_counter_clockwise(turns):
    images = make_batch(1, 8, 8).images
    matrix = inverse_rotation(tf.constant([turns * math.pi / 2], tf.float64))
    turned = warp(images, *affine_coordinates(8, 8, matrix), "constant", 0)
    np.testing.assert_array_equal(turned[0], np.rot90(images[0], turns))


def test_angles_are_uniform_both_ways_up_to_the_greatest():
    # A bright point far right of the centre tells the angle.
    images = np.zeros((1, 201, 201, 1), np.uint8)
    images[0, 97:104, 187:194] = 255
    turned = (
        rotate(
            Batch(tf.constant(np.tile(images, (300, 1, 1, 1)))), make_keys(300), Rotate(degrees=40)
        )
        .images.numpy()[..., 0]
        .astype(float)
    )
    y, x = np.mgrid[:201, :201] - 100
    weight = turned.sum(axis=(1, 2))
    up, right = -(turned * y).sum(axis=(1, 2)) / weight, (turned * x).sum(axis=(1, 2)) / weight
    angles = np.degrees(np.arctan2(up, right))
    assert -40 < angles.min() < -37 and 37 < angles.max() < 40
    assert abs(angles.mean()) < 4 and abs(angles.std() - 80 / math.sqrt(12)) < 2


def test_a_box_is_the_least_one_around_its_turned_corners():
    box = [0.25, 0.5, 0.75, 0.625]
    batch = make_batch(5, 16, 32, boxes=[box, [0.0, 0.0, 0.0, 0.0]])
    keys = make_keys(5)
    turned = run_in_all_ways(rotate, batch, keys, Rotate(degrees=30))
    angles = (2 * draws.uniform(keys, 1)[:, 0].numpy().astype(float) - 1) * math.radians(30)
    for place, angle in enumerate(angles):
        corners = [(x - 16, y - 8) for x in (16, 20) for y in (4, 12)]
        new_x = [x * math.cos(angle) + y * math.sin(angle) for x, y in corners]
        new_y = [y * math.cos(angle) - x * math.sin(angle) for x, y in corners]
        expected = [
            min(new_y) / 16 + 0.5,
            min(new_x) / 32 + 0.5,
            max(new_y) / 16 + 0.5,
            max(new_x) / 32 + 0.5,
        ]
        np.testing.assert_allclose(turned.boxes[place, 0], np.clip(expected, 0, 1), atol=1e-6)
        np.testing.assert_array_equal(turned.boxes[place, 1], np.zeros(4))


def test_a_turn_of_large_images_has_the_same_bits_everywhere():
    batch = make_batch(2, 160, 224, with_masks=True)
    run_in_all_ways(rotate, batch, make_keys(2, seed=5), Rotate(degrees=180, mode="reflect"))
