"""Random steps over images that are not of 8 bits: the same moves, and no rounding to levels."""

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.apply import apply_steps
from image_pipeline.components.augment.options import check_steps, read_step
from image_pipeline.components.errors import UserError
from tests.augment.ways import make_batch, make_keys

pytestmark = pytest.mark.unit

MOVES = [
    {"op": "pad_and_crop"},
    {"op": "pad_and_crop", "mode": "constant", "fill": 9},
    {"op": "flip_horizontal"},
    {"op": "flip_vertical"},
    {"op": "cutout", "size_px": 5},
    {"op": "random_erasing", "probability": 0.9},
    {"op": "cutmix"},
]
BLENDS = [{"op": "rotate"}, {"op": "rotate", "mode": "reflect"}, {"op": "mixup"}]


def in_both_types(step):
    batch, keys = make_batch(24, 9, 11), make_keys(24)
    floats = batch._replace(images=tf.cast(batch.images, tf.float32))
    found = (apply_steps(each, keys, [read_step(step)]).images for each in (batch, floats))
    levels, values = (each.numpy() for each in found)
    assert values.dtype == np.float32
    assert not np.array_equal(values, floats.images)
    return levels.astype(np.float32), values


@pytest.mark.parametrize("step", MOVES, ids=str)
def test_pixels_are_moved_as_those_of_8_bits_are(step):
    np.testing.assert_array_equal(*in_both_types(step))


@pytest.mark.parametrize("step", BLENDS, ids=str)
def test_blended_pixels_are_those_of_8_bits_before_they_are_rounded(step):
    levels, values = in_both_types(step)
    assert np.abs(levels - values).max() <= 0.5
    assert (values != np.round(values)).any()


@pytest.mark.parametrize("op", ["color_jitter", "grayscale", "gaussian_blur", "rand_augment"])
def test_steps_of_levels_are_refused_by_name(op):
    message = f"feeding.augment has {op}, which needs levels from 0 to 255, but view.dtype=float32"
    with pytest.raises(UserError, match=message):
        check_steps([read_step({"op": op})], "float32", 3)


@pytest.mark.parametrize("op", ["color_jitter", "grayscale", "rand_augment"])
def test_steps_of_colours_are_refused_by_name(op):
    message = f"feeding.augment has {op}, which needs gray or RGB, but view.channels=4; leave it"
    with pytest.raises(UserError, match=message):
        check_steps([read_step({"op": op})], "uint8", 4)


def test_all_others_are_taken():
    steps = [read_step(step) for step in MOVES + BLENDS]
    check_steps([*steps, read_step({"op": "random_resized_crop"})], "float32", 13)
    check_steps([*steps, read_step({"op": "gaussian_blur"})], "uint8", 13)
