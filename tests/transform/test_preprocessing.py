"""Statistics through tf.Transform itself, against NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.transform.preprocessing import standardize, subtract_mean
from image_pipeline.components.transform.statistics import read_statistics
from image_pipeline.components.views.options import ViewOptions
from tests.transform.analyze import analyze

pytestmark = pytest.mark.beam


def _images(count, height=6, width=5, channels=3, low=0, high=256):
    generator = np.random.default_rng(count)
    return generator.integers(low, high, (count, height, width, channels), np.uint8)


def _transform(folder, images, labels):
    loaded = tf.saved_model.load(f"{folder}/transform_fn")
    return loaded.transform_fn(
        {contract.IMAGE_INPUT: tf.constant(images), contract.LABEL_INPUT: tf.constant(labels)}
    )


@pytest.mark.parametrize("sizes", [[7, 1, 2, *[1] * 9, 21]])
def test_mean_and_std_are_numpys_for_any_batching(tmp_path, sizes):
    images = _images(40)
    batches = np.split(images, np.cumsum(sizes)[:-1])
    analyze(tmp_path, [(batch, [b"a"] * len(batch)) for batch in batches], standardize)
    found = read_statistics(str(tmp_path))
    exact = images.astype(np.float64)
    np.testing.assert_allclose(found["mean"], exact.mean((0, 1, 2)), rtol=1e-15)
    np.testing.assert_allclose(found["std"], exact.std((0, 1, 2)), rtol=1e-14)


@pytest.mark.wide
def test_a_large_offset_with_a_small_spread_loses_no_digit(tmp_path):
    # One grey level of difference in one of 40 * 30 pixels: variance 8.3e-4 beside a square of
    # the mean of 65,000, where sums in float32 have no digit left.
    images = np.full((40, 6, 5, 3), 255, np.uint8)
    images[3, 2, 1] = 254
    analyze(tmp_path, [(images, [b"a"] * 40)], standardize)
    found = read_statistics(str(tmp_path))
    share = 1 / (40 * 30)
    np.testing.assert_allclose(found["mean"], 255 - share, rtol=1e-15)
    np.testing.assert_allclose(found["std"], np.sqrt(share * (1 - share)), rtol=1e-12)


def test_the_graph_normalises_and_numbers_the_classes(tmp_path):
    images = _images(40)
    labels = [b"dog"] * 30 + [b"cat"] * 10
    analyze(tmp_path, [(images, labels)], standardize)
    outputs = _transform(tmp_path, images[:3], [b"cat", b"dog", b"never seen"])
    exact = images.astype(np.float64)
    expected = (exact[:3] - exact.mean((0, 1, 2))) / exact.std((0, 1, 2))
    np.testing.assert_allclose(outputs[contract.IMAGE_OUTPUT], expected, atol=1e-6)
    assert outputs[contract.IMAGE_OUTPUT].dtype == tf.float32
    assert outputs[contract.LABEL_OUTPUT].numpy().tolist() == [0, 1, -1]


def test_a_constant_channel_is_divided_by_one(tmp_path):
    images = _images(10)
    images[..., 1] = 7
    analyze(tmp_path, [(images, [b"a"] * 10)], standardize)
    assert read_statistics(str(tmp_path))["std"][1] == 1
    assert read_statistics(str(tmp_path))["constant_channels"].tolist() == [False, True, False]
    outputs = _transform(tmp_path, images, [b"a"] * 10)
    assert (outputs[contract.IMAGE_OUTPUT].numpy()[..., 1] == 0).all()


def test_subtract_mean_takes_each_pixels_own_mean_in_grey_too(tmp_path):
    images = _images(40, channels=1)
    batches = [(images[:9], [b"a"] * 9), (images[9:], [b"a"] * 31)]
    analyze(tmp_path, batches, subtract_mean, ViewOptions(height_px=6, width_px=5, channels=1))
    mean = images.astype(np.float64).mean(0)
    np.testing.assert_array_equal(read_statistics(str(tmp_path))["mean_image"], mean)
    outputs = _transform(tmp_path, images[:2], [b"a"] * 2)
    expected = images[:2].astype(np.float32) - mean.astype(np.float32)
    np.testing.assert_array_equal(outputs[contract.IMAGE_OUTPUT], expected)
