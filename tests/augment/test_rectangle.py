import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.batch import Rectangles, is_covered

pytestmark = pytest.mark.unit


def test_rectangles_hold_their_first_row_and_column_but_not_their_ends():
    sides = np.array([[1, 2, 3, 4], [-3, -3, 2, 1], [2, 1, 2, 3], [0, 0, 9, 9]])
    rectangles = Rectangles(*(tf.constant(side, tf.int32) for side in sides.T))
    expected = np.zeros((4, 4, 5, 1), bool)
    expected[0, 1:3, 2:4] = True
    expected[1, :2, :1] = True
    expected[3] = True  # the third is empty
    np.testing.assert_array_equal(is_covered(4, 5, rectangles), expected)
