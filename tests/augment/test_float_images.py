"""Random steps over images that are not of 8 bits: the same moves, and no rounding to levels."""

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.apply import apply_steps
from image_pipeline.components.augment.options import COLORS, LEVELS, STEPS, check_steps, read_step
from image_pipeline.components.errors import UserError
from tests.augment.ways import EXAMPLES, make_batch, make_keys

pytestmark = pytest.mark.unit

# Steps that take any pixels; between them, some compute a mean, and of 8 bits round it.
TAKEN = [each for each in EXAMPLES if LEVELS not in read_step(each).needs]
BLENDS = ("rotate", "mixup")
VARIANTS = [
    {"op": "pad_and_crop", "mode": "constant", "fill": 9},
    {"op": "rotate", "mode": "reflect"},
]


def in_both_types(step):
    batch, keys = make_batch(24, 9, 11), make_keys(24)
    floats = batch._replace(images=tf.cast(batch.images, tf.float32))
    found = (apply_steps(each, keys, [read_step(step)]).images for each in (batch, floats))
    levels, values = (each.numpy() for each in found)
    assert values.dtype == np.float32
    assert not np.array_equal(values, floats.images)
    return levels.astype(np.float32), values


@pytest.mark.parametrize("step", [*TAKEN[1:], *VARIANTS], ids=str)  # The crop is decoding's.
def test_pixels_become_those_of_8_bits_before_they_are_rounded(step):
    levels, values = in_both_types(step)
    is_blend = step["op"] in BLENDS
    assert np.abs(levels - values).max() <= 0.5 * is_blend
    assert (values != np.round(values)).any() == is_blend


@pytest.mark.parametrize("op", [op for op, step in STEPS.items() if LEVELS in step.needs])
def test_steps_of_levels_are_refused_by_name(op):
    message = f"feeding.augment has {op}, which needs levels from 0 to 255, but view.dtype=float32"
    with pytest.raises(UserError, match=message):
        check_steps([read_step({"op": op})], "float32", 3)


@pytest.mark.parametrize("op", [op for op, step in STEPS.items() if COLORS in step.needs])
def test_steps_of_colours_are_refused_by_name(op):
    message = f"feeding.augment has {op}, which needs gray or RGB, but view.channels=4; leave it"
    with pytest.raises(UserError, match=message):
        check_steps([read_step({"op": op})], "uint8", 4)


def test_all_others_are_taken():
    check_steps(list(map(read_step, TAKEN)), "float32", 13)
    check_steps([*map(read_step, TAKEN), read_step({"op": "gaussian_blur"})], "uint8", 13)
