import math

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.geometry import (
    affine_coordinates,
    inverse_rotation,
    rotate,
    warp,
)
from image_pipeline.components.augment.options import Rotate
from image_pipeline.components.dataset.record import IGNORED
from tests.augment.test_warp import level_at, sample
from tests.augment.ways import check_hangs_on_keys_only, make_batch, make_keys, run_in_all_ways

pytestmark = pytest.mark.unit


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


def test_the_angle_hangs_on_the_key_only():
    check_hangs_on_keys_only(rotate, Rotate())


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
