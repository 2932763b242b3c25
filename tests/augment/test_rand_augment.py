import math

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageFilter, ImageOps

from image_pipeline.components.augment import draws, geometry
from image_pipeline.components.augment.options import RandAugment
from image_pipeline.components.augment.rand_augment import (
    OPERATIONS,
    choose_operations,
    make_factors,
    make_matrices,
    rand_augment,
)
from image_pipeline.components.dataset.record import IGNORED
from tests.augment.test_color import _spread_levels as spread_levels
from tests.augment.ways import make_batch, make_keys, run_in_all_ways
from tests.tiers import wide

pytestmark = pytest.mark.unit


def _blend(image, other, factor):
    other = np.asarray(other, float).reshape(*np.shape(other)[:2], -1) if np.ndim(other) else other
    return np.clip(np.round(other + factor * (image - other)), 0, 255).astype(np.uint8)


def _change(image, name, factor, magnitude):
    """One change of levels or colours, by Pillow."""
    pillow = Image.fromarray(image)
    gray = np.asarray(pillow.convert("L"))
    if name == "brightness":
        return _blend(image, 0.0, factor)
    if name == "color":
        return _blend(image, gray, factor)
    if name == "contrast":
        return _blend(image, np.floor(gray.mean() + 0.5), factor)
    if name == "sharpness":
        return _blend(image, np.asarray(pillow.filter(ImageFilter.SMOOTH)), factor)
    if name == "posterize":
        return np.asarray(ImageOps.posterize(pillow, 8 - round(magnitude / 10 * 4)))
    if name == "solarize":
        return np.asarray(ImageOps.solarize(pillow, 255 - magnitude * 25.5))
    if name == "autocontrast":
        return np.stack([spread_levels(image[..., c]) for c in range(3)], axis=-1).astype(np.uint8)
    return np.asarray(ImageOps.equalize(pillow))


def _source(x, y, name, magnitude, height, width):
    """Where a new pixel comes from; from the upper left corner, in pixels."""
    share = magnitude / 10
    if name == "shear_x":
        return x + 0.3 * share * (y + 0.5), y
    if name == "shear_y":
        return x, y + 0.3 * share * (x + 0.5)
    if name == "translate_x":
        return x - int(150 / 331 * share * width), y
    if name == "translate_y":
        return x, y - int(150 / 331 * share * height)
    angle = math.radians(30 * share)
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    right, below = x - middle_x, y - middle_y
    return (
        middle_x + math.cos(angle) * right - math.sin(angle) * below,
        middle_y + math.sin(angle) * right + math.cos(angle) * below,
    )


def _coordinates(name, magnitude, height, width):
    """Rows and columns: float32 [height, width] each.

    They are the step's own, checked here: it rounds a matrix before it uses it, and so now and then
    another 1/256 pixel is the nearest.
    """
    places = [
        [_source(x, y, name, magnitude, height, width) for x in range(width)] for y in range(height)
    ]
    matrix = make_matrices(height, width, magnitude)[OPERATIONS.index(name)]
    rows, columns = (
        each[0].numpy()
        for each in geometry.affine_coordinates(height, width, tf.constant(matrix[None]))
    )
    np.testing.assert_allclose(np.stack([columns, rows], axis=-1), places, rtol=0, atol=1e-4)
    return rows, columns


def _at(image, row, column, fill):
    inside = 0 <= row < image.shape[0] and 0 <= column < image.shape[1]
    return image[row, column].astype(float) if inside else np.full(image.shape[-1], float(fill))


def _move(image, rows, columns, fill):
    """Bilinearly, one pixel at a time."""
    moved = np.empty_like(image)
    for place in np.ndindex(rows.shape):
        row, column = (np.round(each[place] * 256) / 256 for each in (rows, columns))
        top, left = math.floor(row), math.floor(column)
        down, right = row - top, column - left
        upper = (1 - right) * _at(image, top, left, fill) + right * _at(image, top, left + 1, fill)
        lower = (1 - right) * _at(image, top + 1, left, fill)
        lower += right * _at(image, top + 1, left + 1, fill)
        moved[place] = np.round((1 - down) * upper + down * lower)
    return moved


def _move_mask(mask, rows, columns):
    moved = np.empty_like(mask)
    for place in np.ndindex(rows.shape):
        row, column = (np.round(each[place] * 256) / 256 for each in (rows, columns))
        moved[place] = _at(mask, math.floor(row + 0.5), math.floor(column + 0.5), IGNORED)
    return moved


def _augment(image, mask, operation, is_negative, options):
    name = OPERATIONS[operation]
    magnitude = -options.magnitude if is_negative else options.magnitude
    if name == "identity":
        return image, mask
    if name in OPERATIONS[1:6]:
        place = _coordinates(name, magnitude, *image.shape[:2])
        return _move(image, *place, options.fill), _move_mask(mask, *place)
    factor = 1 + round(0.09 * magnitude * 4096) / 4096
    return _change(image, name, factor, options.magnitude), mask


@pytest.mark.parametrize(
    "settings",
    [
        wide({"steps": 1}),
        {"steps": 1, "magnitude": 3.3, "fill": 128},
        {"steps": 2, "magnitude": 10},
    ],
)
@pytest.mark.parametrize("size", [(7, 5), wide((24, 30))])
def test_every_level_is_the_oracles(settings, size):
    batch, keys = make_batch(80, *size, with_masks=True), make_keys(80, 4)
    options = RandAugment(**settings)
    after = run_in_all_ways(rand_augment, batch, keys, options)
    images, masks, taken = list(batch.images.numpy()), list(batch.masks.numpy()), set()
    for number in range(options.steps):
        drawn = choose_operations(draws.uniform(draws.fold(keys, number), 2))
        for place, (operation, sign) in enumerate(zip(*(d.numpy() for d in drawn), strict=True)):
            taken.add((operation, sign))
            images[place], masks[place] = _augment(
                images[place], masks[place], operation, sign, options
            )
    for place in range(80):
        np.testing.assert_array_equal(after.images[place], images[place], err_msg=f"{place}")
        np.testing.assert_array_equal(after.masks[place], masks[place], err_msg=f"{place}")
    assert len(taken) > 24, "of 28, or the oracle has not been asked about all of them"


def test_all_operations_both_ways_are_equally_probable():
    operations, directions = choose_operations(draws.uniform(make_keys(28_000), 2))
    counts = np.bincount(operations.numpy() * 2 + directions.numpy())
    assert len(counts) == 28 and counts.min() > 850 and counts.max() < 1150


def test_the_greatest_numbers_are_the_last_operation():
    last = tf.fill([1, 2], tf.constant(1 - 2.0**-24, tf.float32))
    assert [int(each[0]) for each in choose_operations(last)] == [len(OPERATIONS) - 1, 0]


def test_an_image_gets_another_operation_at_each_step():
    keys = make_keys(100)
    first, second = (choose_operations(draws.uniform(draws.fold(keys, n), 2))[0] for n in (0, 1))
    assert 1 < np.sum(first.numpy() == second.numpy()) < 20


def test_magnitude_0_moves_nothing_and_factors_are_1():
    identity = [[1, 0, 0], [0, 1, 0]]
    np.testing.assert_array_equal(make_matrices(9, 7, 0), [identity] * 14)
    assert make_factors(0).tolist() == [1, 1]


def test_magnitude_10_reaches_torchvisions_bounds():
    matrices = dict(zip(OPERATIONS, make_matrices(331, 331, 10), strict=True))
    assert matrices["shear_x"][0, 1] == matrices["shear_y"][1, 0] == 0.3
    assert matrices["translate_x"][0, 2] == matrices["translate_y"][1, 2] == -150
    assert matrices["rotate"][1, 0] == pytest.approx(math.sin(math.radians(30)))
    assert make_factors(10) == pytest.approx([1.9, 0.1], abs=1e-3)
    with_sign = make_matrices(331, 331, -10)
    assert with_sign[1][0, 1] == -0.3 and with_sign[3][0, 2] == 150


def test_a_turn_is_counterclockwise_and_pillows():
    """A smooth image, so that Pillow's way of rounding a coordinate makes no difference."""
    y, x = np.mgrid[:41, :41]
    image = (100 + 2 * x + y).astype(np.uint8)
    matrix = tf.constant(make_matrices(41, 41, 10)[5:6])
    place = geometry.affine_coordinates(41, 41, matrix)
    turned = geometry.warp(tf.constant(image[None, ..., None]), *place, "constant", 0).numpy()[
        0, ..., 0
    ]
    expected = np.asarray(Image.fromarray(image).rotate(30, Image.Resampling.BILINEAR))
    apart = np.abs(turned.astype(int) - expected)[12:29, 12:29]
    assert apart.max() <= 1


@pytest.mark.parametrize("channels", [1, wide(3)])
def test_shapes_types_and_absent_parts_stay(channels):
    batch = make_batch(20, 9, 9, channels)
    after = run_in_all_ways(rand_augment, batch, make_keys(20), RandAugment())
    assert after.images.shape == (20, 9, 9, channels) and after.images.dtype == np.uint8
    assert after.masks is None and after.boxes is None
    assert (after.images != batch.images.numpy()).any()
