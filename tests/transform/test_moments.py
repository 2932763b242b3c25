"""The arithmetic on sums, against fractions of Python's unbounded integers."""

import fractions
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.transform.moments import mean_and_std_from_sums
from image_pipeline.components.transform.preprocessing import standardize, subtract_mean
from image_pipeline.components.transform.statistics import read_statistics
from image_pipeline.components.transform.whitening import whiten_zca
from image_pipeline.components.views.options import ViewOptions
from tests.transform.analyze import analyze

pytestmark = pytest.mark.unit


def exact_mean_and_std(counts):
    """Mean and standard deviation of pixels given as {grey level: how many}."""
    pixels = sum(counts.values())
    mean = fractions.Fraction(sum(level * n for level, n in counts.items()), pixels)
    variance = sum(n * (level - mean) ** 2 for level, n in counts.items()) / pixels
    return float(mean), math.sqrt(variance)


def found_mean_and_std(counts):
    sums = [sum(level**power * n for level, n in counts.items()) for power in (0, 1, 2)]
    count, total, squares = (tf.constant(value, tf.int64) for value in sums)
    mean, std = mean_and_std_from_sums(count, total[None], squares[None])
    return float(mean[0]), float(std[0])


# The greatest number of pixels, 7·10¹³, is what the docstring promises.
@given(
    st.dictionaries(
        st.integers(0, 255), st.integers(1, 7 * 10**13 // 256), min_size=1, max_size=256
    )
)
def test_mean_and_std_are_exact_up_to_the_last_digits(counts):
    mean, std = exact_mean_and_std(counts)
    found_mean, found_std = found_mean_and_std(counts)
    assert found_mean == pytest.approx(mean, rel=1e-15)
    assert found_std == pytest.approx(std, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "counts",
    [
        {0: 10**9, 255: 10**9},
        {254: 1, 255: 10**9},  # variance 1e-9 beside a squared mean of 65,000
        {255: 69 * 10**12},
        {0: 35 * 10**12, 255: 35 * 10**12},
    ],
)
def test_a_thousand_million_pixels_and_more(counts):
    mean, std = exact_mean_and_std(counts)
    found_mean, found_std = found_mean_and_std(counts)
    assert found_mean == pytest.approx(mean, rel=1e-15)
    assert found_std == pytest.approx(std, rel=1e-6, abs=0)


FLOATS = ViewOptions(height_px=4, width_px=3, channels=5, dtype="float32")


def draw_floats():
    """Channels of very different scales; one of a single value that 0.1 times a count is not."""
    values = np.random.default_rng(0).normal(size=(30, 4, 3, 5))
    values = values * [1e-3, 1, 1e3, 1e6, 0] + [0, 5, -7e4, 1e7, 0.1]
    return values.astype(np.float32)


def analyze_floats(folder, function):
    images = draw_floats()
    labels = [b"ab"[n % 2 : n % 2 + 1] for n in range(30)]
    analyze(folder, [(images[:7], labels[:7]), (images[7:], labels[7:])], function, FLOATS)
    return images, read_statistics(str(folder))


@pytest.mark.beam
def test_floats_are_standardized_in_float64(tmp_path):
    images, found = analyze_floats(tmp_path, standardize)
    pixels = images.reshape(-1, 5).astype(np.float64)
    np.testing.assert_allclose(found["mean"], pixels.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found["std"], [*pixels.std(axis=0)[:4], 1], rtol=1e-12)
    assert found["constant_channels"].tolist() == [False] * 4 + [True]
    graph = TransformGraph(str(tmp_path))
    scale = (1 / found["std"]).astype(np.float32)
    expected = (images - found["mean"].astype(np.float32)) * scale
    np.testing.assert_array_equal(graph.transform_images(tf.constant(images)), expected)
    compiled = graph.compile_pixels()
    np.testing.assert_array_equal(compiled(tf.constant(images)), expected)


@pytest.mark.beam
def test_the_mean_image_of_floats(tmp_path):
    images, found = analyze_floats(tmp_path, subtract_mean)
    expected = images.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(found["mean_image"], expected, rtol=1e-12)


def test_floats_are_not_whitened():
    inputs = {"image": tf.zeros([2, 4, 3, 5]), "label": tf.constant(["a", "b"])}
    with pytest.raises(UserError, match=r"whitening takes 8-bit images, .* view.dtype=float32; us"):
        whiten_zca(inputs)
