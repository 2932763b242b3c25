"""What NumPy draws of a record's key: the very numbers that the steps draw of it in TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.augment import draws, geometry, keys
from image_pipeline.components.augment.options import RandomResizedCrop

pytestmark = pytest.mark.unit

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(seed=INT64, epoch=st.integers(0, 2**40), ids=st.lists(INT64, min_size=1, max_size=9))
def test_keys_and_numbers_are_those_of_tensorflow(seed, epoch, ids):
    copies = np.arange(len(ids))
    found = keys.record_keys(seed, epoch, np.array(ids), copies)
    tensors = tf.constant(epoch, tf.int64), tf.constant(ids, tf.int64), tf.constant(copies)
    np.testing.assert_array_equal(found, draws.record_keys(seed, *tensors))
    folded = keys.fold(found, 3)
    np.testing.assert_array_equal(folded, draws.fold(tf.constant(found), 3))
    np.testing.assert_array_equal(keys.uniform(folded, 5), draws.uniform(tf.constant(folded), 5))


@pytest.mark.parametrize(
    "options",
    [RandomResizedCrop(), RandomResizedCrop(area=(0.5, 1.0), aspect=(1.0, 1.0))],
    ids=["default", "square"],
)
def test_crops_are_those_of_tensorflow(options):
    generator = np.random.default_rng(4)
    sizes = generator.integers(1, 4000, (20_000, 2))
    own = generator.integers(0, 2**64, len(sizes), np.uint64)
    found = keys.draw_crop_windows(sizes, own, options)
    expected = geometry.draw_crop_windows(tf.constant(sizes), tf.constant(own), options)
    np.testing.assert_array_equal(found, expected)
