import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.batch import Rectangles, clip_boxes, is_covered, map_images
from tests.augment.ways import make_batch

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ([0.25, 0.5, 0.75, 1.0], [0.25, 0.5, 0.75, 1.0]),
        ([-0.25, 0.5, 0.75, 1.5], [0.0, 0.5, 0.75, 1.0]),
        ([-0.5, 0.25, 0.0, 0.75], [0.0, 0.0, 0.0, 0.0]),  # touches the image from above
        ([0.25, 1.0, 0.75, 2.0], [0.0, 0.0, 0.0, 0.0]),
        ([0.5, 0.25, 0.5, 0.75], [0.0, 0.0, 0.0, 0.0]),  # no height
    ],
)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_boxes_are_cut_at_the_edges_and_empty_ones_are_zeros(box, expected, dtype):
    clipped = clip_boxes(tf.constant([[box]], dtype))
    assert clipped.dtype == tf.float32
    np.testing.assert_array_equal(clipped, [[expected]])


def test_rectangles_hold_their_first_row_and_column_but_not_their_ends():
    sides = np.array([[1, 2, 3, 4], [-3, -3, 2, 1], [2, 1, 2, 3], [0, 0, 9, 9]])
    rectangles = Rectangles(*(tf.constant(side, tf.int32) for side in sides.T))
    expected = np.zeros((4, 4, 5, 1), bool)
    expected[0, 1:3, 2:4] = True
    expected[1, :2, :1] = True
    expected[3] = True  # the third is empty
    np.testing.assert_array_equal(is_covered(4, 5, rectangles), expected)


def _invert_some(images, chosen):
    assert all(each.shape[0] == 1 for each in images)
    return tf.cond(chosen[0], lambda: tuple(255 - each for each in images), lambda: images)


@pytest.mark.parametrize("compiled", [None, False, True])
def test_each_image_takes_its_own_branch(compiled):
    batch = make_batch(4, with_masks=True)
    chosen = tf.constant([True, False, False, True])
    run = lambda: map_images(_invert_some, (batch.images, batch.masks), chosen)  # noqa: E731
    images, masks = run() if compiled is None else tf.function(run, jit_compile=compiled)()
    for before, after in ((batch.images, images), (batch.masks, masks)):
        expected = np.where(chosen[:, None, None, None], 255 - before.numpy(), before)
        np.testing.assert_array_equal(after, expected)
        assert after.dtype == tf.uint8
