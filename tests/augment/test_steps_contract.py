"""What holds for every step that works on one image at a time, whatever it does."""

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.apply import apply_steps
from image_pipeline.components.augment.options import read_step
from tests.augment.ways import EXAMPLES, make_batch, make_keys

pytestmark = pytest.mark.unit

# The others have tests of their own.
ALL = [each for each in EXAMPLES if each["op"] not in ("random_resized_crop", "mixup", "cutmix")]
# They turn or shift.
MOVES = ("pad_and_crop", "flip_horizontal", "flip_vertical", "rotate", "rand_augment")
each_step = pytest.mark.parametrize("step", ALL, ids=lambda step: step["op"])


def _images(step, batch, keys):
    return apply_steps(batch, keys, [read_step(step)]).images.numpy()


@each_step
def test_a_view_hangs_on_its_key_alone_not_on_its_batch(step):
    batch, keys = make_batch(24, 9, 11), make_keys(24)
    whole = _images(step, batch, keys)
    order = np.random.default_rng(0).permutation(24)[:10]
    taken = batch._replace(images=tf.gather(batch.images, order))
    np.testing.assert_array_equal(_images(step, taken, tf.gather(keys, order)), whole[order])
    for place in (0, 13):
        alone = batch._replace(images=batch.images[place : place + 1])
        one = _images(step, alone, keys[place : place + 1])
        np.testing.assert_array_equal(one[0], whole[place])


@each_step
def test_records_epochs_and_runs_get_other_views(step):
    batch = make_batch(24, 9, 11)
    same = batch._replace(images=batch.images[:1] + batch.images * 0)
    views = [
        _images(step, same, make_keys(24, seed, epoch)) for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert all(len({view.tobytes() for view in each}) > 1 for each in views)
    assert len({view.tobytes() for view in views}) == 3


@each_step
def test_a_compiled_step_draws_anew_at_each_call(step):
    """No number is frozen while the step is traced."""
    batch, options = make_batch(24, 9, 11), read_step(step)
    run = tf.function(
        lambda images, keys: apply_steps(batch._replace(images=images), keys, [options]).images,
        jit_compile=True,
    )
    views = [run(batch.images, make_keys(24, 0, epoch)).numpy() for epoch in range(3)]
    assert len({view.tobytes() for view in views}) == 3
    np.testing.assert_array_equal(run(batch.images, make_keys(24)), views[0])


@each_step
def test_only_steps_that_move_pixels_change_masks_and_boxes(step):
    batch = make_batch(8, 9, 11, with_masks=True, boxes=[[0.1, 0.2, 0.5, 0.9]])
    after = apply_steps(batch, make_keys(8), [read_step(step)])
    is_left = after.masks is batch.masks and after.boxes is batch.boxes
    assert is_left == (step["op"] not in MOVES)
