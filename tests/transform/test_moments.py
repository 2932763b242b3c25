"""The arithmetic on sums, against fractions of Python's unbounded integers."""

import fractions
import math

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from image_pipeline.components.transform.moments import mean_and_std_from_sums

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
@settings(deadline=None, max_examples=200)
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
