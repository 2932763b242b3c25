import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.geometry import flip_horizontal, flip_vertical, mirror
from image_pipeline.components.augment.options import FlipHorizontal, FlipVertical
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


@pytest.mark.parametrize(("step", "options", "axis"), FLIPS)
def test_a_flip_hangs_on_the_key_only(step, options, axis):
    keys = make_keys(200)
    images = tf.tile(make_batch(1).images, [200, 1, 1, 1])
    flipped = step(Batch(images), keys, options()).images.numpy()
    share = (flipped != images.numpy()).any(axis=(1, 2, 3)).mean()
    assert 0.4 < share < 0.6
    later = step(Batch(images), make_keys(200, epoch=1), options()).images.numpy()
    assert 0.4 < (flipped != later).any(axis=(1, 2, 3)).mean() < 0.6
    alone = step(Batch(images[:5]), keys[100:105], options()).images
    np.testing.assert_array_equal(alone, flipped[100:105])


def test_mirror_takes_the_choice_from_its_caller():
    batch = make_batch(3, boxes=[[0.0, 0.0, 1.0, 0.25]])
    mirrored = mirror(batch, tf.constant([True, False, True]))
    np.testing.assert_array_equal(mirrored.images[0], batch.images[0, :, ::-1])
    np.testing.assert_array_equal(mirrored.images[1], batch.images[1])
    np.testing.assert_array_equal(mirrored.images[2], batch.images[2, :, ::-1])
    np.testing.assert_array_equal(mirrored.boxes[:, 0, 1], [0.75, 0.0, 0.75])
    assert mirrored.masks is None and mirrored.own_share is None
