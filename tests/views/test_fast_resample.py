import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from image_pipeline.components.views import fast_resample, resample

pytestmark = pytest.mark.unit


def draw(size, channels=3):
    return np.random.default_rng(7).integers(0, 256, (*size, channels), np.uint8)


def resample_both(image, resized, offset, window):
    """By SciPy and by TensorFlow."""
    out = np.empty((*window, image.shape[2]), np.uint8)
    fast_resample.resample_window(image, resized, offset, out)
    arguments = (tf.constant(each) for each in (image, resized, offset))
    return out, resample.resample_window(*arguments, window).numpy()


@given(data=st.data())
def test_it_gives_tensorflow_s_bits(data):
    sides = st.integers(1, 150)
    size, resized = ((data.draw(sides), data.draw(sides)) for _ in range(2))
    window = tuple(data.draw(st.integers(1, side)) for side in resized)
    offset = tuple(data.draw(st.integers(0, r - w)) for r, w in zip(resized, window, strict=True))
    image = draw(size, data.draw(st.integers(1, 6)))
    fast, graph = resample_both(image, resized, offset, window)
    np.testing.assert_array_equal(fast, graph)


@pytest.mark.parametrize("size", [(1500, 1000), (999, 2001), (4001, 7), (3, 20_000)])
def test_large_images_too(size):
    image = draw(size)
    image[::2] = 255  # The largest sums.
    fast, graph = resample_both(image, (64, 70), (5, 3), (48, 60))
    np.testing.assert_array_equal(fast, graph)


@given(st.integers(1, 5000), st.integers(1, 400), st.data())
@example(1, 1, None)
def test_weights_sum_to_one_and_are_where_the_triangle_is(side, resized, data):
    offset = 0 if data is None else data.draw(st.integers(0, resized - 1))
    start, matrix = fast_resample.make_matrix(side, resized, offset, resized - offset, 1)
    weights = matrix.toarray().astype(np.float64)
    np.testing.assert_array_equal(weights.sum(1), 1)
    places = start + np.arange(weights.shape[1])
    middles = (offset + np.arange(resized - offset) + 0.5) * side / resized
    distances = np.abs(places + 0.5 - middles[:, None]) / max(1, side / resized)
    triangle = np.maximum(1 - distances, 0)
    triangle /= triangle.sum(1, keepdims=True)
    assert np.abs(weights - triangle).max() <= 2**-13
    assert start >= 0 and places[-1] < side


def test_a_view_of_a_larger_array_is_read_as_it_lies():
    image = draw((60, 80))
    part = image[5:45, 10:70]
    fast, _ = resample_both(part, (20, 30), (0, 0), (20, 30))
    copied, _ = resample_both(part.copy(), (20, 30), (0, 0), (20, 30))
    np.testing.assert_array_equal(fast, copied)


def test_strips_change_nothing(monkeypatch):
    image = draw((70, 90))
    whole, _ = resample_both(image, (33, 44), (1, 2), (30, 40))
    monkeypatch.setattr(fast_resample, "_STRIP_BYTES", 1)
    strips, _ = resample_both(image, (33, 44), (1, 2), (30, 40))
    np.testing.assert_array_equal(whole, strips)
