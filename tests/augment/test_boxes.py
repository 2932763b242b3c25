import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.batch import clip_boxes

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
