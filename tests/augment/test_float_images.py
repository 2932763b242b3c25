"""Random steps over images that are not of 8 bits: the same moves, and no rounding to levels."""

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.apply import apply_steps
from image_pipeline.components.augment.options import COLORS, LEVELS, RULES, STEPS, read_step
from image_pipeline.components.errors import UserError
from image_pipeline.components.rules import check
from image_pipeline.components.views.options import ViewOptions
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


def check_steps(steps, dtype, channels):
    view = ViewOptions(dtype=dtype, channels=channels)
    check(RULES, steps=[*map(read_step, steps)], view=view)


@pytest.mark.parametrize("op", [op for op, step in STEPS.items() if LEVELS in step.needs])
def test_steps_of_levels_are_refused_by_name(op):
    message = f"feeding.augment has {op}, which needs levels from 0 to 255, but view.dtype=float32"
    with pytest.raises(UserError, match=message):
        check_steps([op], "float32", 3)


@pytest.mark.parametrize("op", [op for op, step in STEPS.items() if COLORS in step.needs])
def test_steps_of_colours_are_refused_by_name(op):
    message = f"feeding.augment has {op}, which needs gray or RGB, but view.channels=4; leave it"
    with pytest.raises(UserError, match=message):
        check_steps([op], "uint8", 4)


def test_all_others_are_taken():
    check_steps(TAKEN, "float32", 13)
    check_steps([*TAKEN, "gaussian_blur"], "uint8", 13)
