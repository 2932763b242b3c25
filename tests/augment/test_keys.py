"""What NumPy draws of a record's key: the very numbers that the steps draw of it in TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.augment import draws, keys

pytestmark = pytest.mark.unit

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9), INT64)
def test_numbers_of_keys_are_those_of_tensorflow(own, number):
    found = keys.fold(np.array(own, np.uint64), number)
    np.testing.assert_array_equal(found, draws.fold(tf.constant(own, tf.uint64), number))
    np.testing.assert_array_equal(keys.uniform(found, 5), draws.uniform(tf.constant(found), 5))
