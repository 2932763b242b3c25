import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.views.resample import resample_floats

pytestmark = pytest.mark.unit

RESIZED, OFFSET, WINDOW = [17, 20], [2, 3], (15, 9)


def resample(image):
    return resample_floats(*(tf.constant(each) for each in (image, RESIZED, OFFSET)), WINDOW)


def test_floats_are_averaged_unrounded():
    image = np.random.default_rng(5).uniform(-1e4, 6e4, (37, 53, 2)).astype(np.float32)
    expected = tf.image.resize(image, RESIZED, antialias=True).numpy()[2:17, 3:12]
    np.testing.assert_allclose(resample(image), expected, atol=6e4 * 1e-5)


def test_what_is_no_number_spoils_only_what_it_is_part_of():
    image = np.ones((37, 53, 1), np.float32)
    image[20, 20] = np.nan
    expected = tf.image.resize(image, RESIZED, antialias=True).numpy()[2:17, 3:12]
    np.testing.assert_array_equal(np.isnan(resample(image)), np.isnan(expected))
    assert 0 < np.isnan(expected).sum() < 10
