"""Whatever steps are taken: a mask has no new value, and follows its image."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.augment.apply import apply_steps
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.options import STEPS, read_step
from image_pipeline.components.dataset.record import IGNORED
from tests.augment.ways import make_keys

pytestmark = pytest.mark.unit

COUNT, HEIGHT, WIDTH = 6, 13, 10
# Mixup refuses masks, and the crop is made while decoding.
WITH_MASKS = sorted(set(STEPS) - {"mixup", "random_resized_crop"})
GEOMETRIC = [
    {"op": "flip_horizontal", "probability": 1},
    {"op": "flip_vertical", "probability": 1},
    {"op": "pad_and_crop", "pad_px": 3, "mode": "constant", "fill": 255},
    {"op": "pad_and_crop", "pad_px": 3, "mode": "reflect"},
    {"op": "rotate", "degrees": 40, "mode": "constant", "fill": 255},
    {"op": "rotate", "degrees": 180, "mode": "reflect"},
    {"op": "cutmix", "probability": 1},
]


@functools.cache
def _compiled(names):
    steps = [read_step(name) for name in names]

    @tf.function(jit_compile=True)
    def run(images, masks, keys):
        return apply_steps(Batch(images, masks), keys, steps).masks

    return run


def _draw(seed, values):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (COUNT, HEIGHT, WIDTH, 3), np.uint8)
    masks = generator.choice(np.array(values, np.uint8), (COUNT, HEIGHT, WIDTH, 1))
    return tf.constant(images), tf.constant(masks)


def test_all_steps_but_two_are_tried():
    assert len(WITH_MASKS) == len(STEPS) - 2


@given(st.sampled_from(WITH_MASKS), st.integers(0, 2**32), st.sets(st.integers(0, 255), min_size=1))
@pytest.mark.parametrize("is_compiled", [False, True])
def test_no_step_makes_a_value_that_was_not_there(is_compiled, name, seed, values):
    images, masks = _draw(seed, sorted(values))
    keys = make_keys(COUNT, seed)
    moved = (
        _compiled((name,))(images, masks, keys)
        if is_compiled
        else apply_steps(Batch(images, masks), keys, [read_step(name)]).masks
    )
    assert set(np.unique(moved)) <= set(np.unique(masks)) | {IGNORED}
    assert moved.shape == masks.shape and moved.dtype == tf.uint8


@pytest.mark.parametrize("seed", range(3))
def test_all_steps_after_each_other_neither(seed):
    names = tuple(name for name in STEPS if name in WITH_MASKS)
    images, masks = _draw(seed, [3, 7, 100])
    keys = make_keys(COUNT, seed)
    moved = apply_steps(Batch(images, masks), keys, [read_step(name) for name in names]).masks
    assert set(np.unique(moved)) <= {3, 7, 100, IGNORED}
    np.testing.assert_array_equal(_compiled(names)(images, masks, keys), moved)


def _regions(count, height, width):
    """Flat regions of the levels 0, 90 and 180: uint8 [count, height, width, 1]."""
    y, x = np.mgrid[0:height, 0:width]
    drawn = [
        np.where((y - 9 - n) ** 2 + (x - 14) ** 2 < 60, 90, np.where(x + n > y + 6, 180, 0))
        for n in range(count)
    ]
    return np.stack(drawn).astype(np.uint8)[..., None]


@pytest.mark.parametrize("step", GEOMETRIC, ids=lambda s: "-".join(map(str, list(s.values())[::2])))
def test_a_mask_drawn_as_its_image_stays_that_of_its_image(step):
    """Where an image's pixel is of one region only, its mask says which."""
    drawn, keys = _regions(12, 30, 26), make_keys(12, seed=4)
    after = apply_steps(Batch(tf.constant(drawn), tf.constant(drawn)), keys, [read_step(step)])
    images, masks = after.images.numpy(), after.masks.numpy()
    assert (images != drawn).any(axis=(1, 2, 3)).sum() >= 8
    is_flat = np.isin(images, [0, 90, 180, 255])
    if step["op"] == "rotate":  # Between two regions the bilinear image mixes; inside, never.
        assert is_flat.mean() > 0.6
    else:
        assert is_flat.all()
    # A mixed level may be one of the three by chance: those have such neighbours.
    differs = is_flat & (images != masks)
    assert differs.sum() <= (0 if step["op"] != "rotate" else 0.004 * differs.size)
