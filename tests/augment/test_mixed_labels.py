import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.mix import mix_labels

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("compiled", [False, True])
def test_labels_are_shared_with_the_partner(compiled):
    class_ids = tf.constant([0, 2, 1, 1, -1, 0, 2], tf.int64)
    own_share = tf.constant([0.75, 0.5, 0.3, 0.6, 0.25, 0.25, 1.0])
    mix = tf.function(mix_labels, jit_compile=True) if compiled else mix_labels
    expected = [
        [0.75, 0, 0.25],
        [0.5, 0, 0.5],
        [0, 1, 0],
        [0, 1, 0],
        [0.75, 0, 0],  # has no class of its own
        [0.25, 0, 0],  # nor has its partner
        [0, 0, 1],  # has no partner
    ]
    labels = mix(class_ids, own_share, 3)
    assert labels.dtype == tf.float32
    np.testing.assert_array_equal(labels, np.array(expected, np.float32))
