import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.views import fast, resample
from image_pipeline.components.views.resample import resample_floats, resample_window
from tests.drawings import draw_smooth

pytestmark = pytest.mark.unit


@given(data=st.data())
def test_it_is_the_window_of_tensorflow_s_antialiased_resize(data):
    sides = st.integers(1, 90)
    size = (data.draw(sides), data.draw(sides))
    resized = (data.draw(sides), data.draw(sides))
    window = tuple(data.draw(st.integers(1, side)) for side in resized)
    offset = [data.draw(st.integers(0, r - w)) for r, w in zip(resized, window, strict=True)]
    channels = data.draw(st.sampled_from([1, 3]))
    image = np.random.default_rng(3).integers(0, 256, (*size, channels), np.uint8)
    result = resample_window(tf.constant(image), tf.constant(resized), tf.constant(offset), window)
    whole = tf.image.resize(image, resized, antialias=True).numpy()
    top, left = offset
    expected = whole[top : top + window[0], left : left + window[1]]
    assert result.dtype == tf.uint8 and result.shape == (*window, channels)
    # Half a gray level of rounding, a sixteenth between the two directions; and both's weights.
    assert np.abs(result.numpy() - expected).max() <= 0.5 + 1 / 16 + 8e-2


@pytest.mark.parametrize(
    ("size", "resized", "expected"),
    [
        # Of triangles two pixels wide to either side: 1, 3, 3, 1 eighths, cut off at the ends.
        ((4, 1), (2, 1), [[[(3 * 0 + 3 * 8 + 80) / 7], [(8 + 3 * 80 + 3 * 160) / 7]]]),
        ((1, 2), (1, 4), [[[0]], [[2]], [[6]], [[8]]]),
    ],
    ids=["shrunk", "enlarged"],
)
def test_weights_are_those_of_the_triangle(size, resized, expected):
    image = np.array([0, 8, 80, 160], np.uint8)[: size[0] * size[1]].reshape(*size, 1)
    result = resample_window(tf.constant(image), tf.constant(resized), tf.constant([0, 0]), resized)
    assert result.numpy().ravel().tolist() == [round(each) for each in np.ravel(expected)]


@given(
    sides=st.tuples(st.integers(1, 3000), st.integers(1, 40)),
    level=st.integers(0, 255),
    target=st.integers(1, 30),
)
def test_what_is_of_one_level_stays_so(sides, level, target):
    image = tf.fill([*sides, 1], tf.constant(level, tf.uint8))
    result = resample_window(
        image, tf.constant([target, target]), tf.constant([0, 0]), (target,) * 2
    )
    assert np.unique(result.numpy()).tolist() == [level]


def test_strips_change_nothing(monkeypatch):
    image = np.random.default_rng(5).integers(0, 256, (37, 53, 3), np.uint8)
    arguments = [tf.constant(each) for each in (image, [17, 20], [2, 3])]
    whole = resample_window(*arguments, (15, 9))
    monkeypatch.setattr(resample, "_STRIP_BYTES", 2000)
    np.testing.assert_array_equal(resample_window(*arguments, (15, 9)), whole)


def test_a_photo_s_view_is_pillow_s():
    image = draw_smooth(1, 375, 500)
    pillow = Image.fromarray(image).resize((341, 256), Image.Resampling.BILINEAR)
    view = resample_window(
        tf.constant(image), tf.constant([256, 341]), tf.constant([16, 58]), (224, 224)
    )
    difference = np.abs(view.numpy().astype(int) - np.asarray(pillow)[16:240, 58:282])
    assert difference.max() <= 1 and difference.mean() < 0.2  # Pillow rounds between its two passes


def test_antialiasing_averages_what_it_merges():
    checkerboard = tf.constant(np.indices((8, 8)).sum(0)[..., None] % 2 * 255, tf.uint8)
    smooth = resample_window(checkerboard, tf.constant([2, 2]), tf.constant([0, 0]), (2, 2))
    assert np.abs(smooth.numpy().astype(int) - 128).max() <= 20


RESIZED, OFFSET, WINDOW = [17, 20], [2, 3], (15, 9)


def _resample(image):
    return resample_floats(*(tf.constant(each) for each in (image, RESIZED, OFFSET)), WINDOW)


def test_floats_are_averaged_unrounded():
    image = np.random.default_rng(5).uniform(-1e4, 6e4, (37, 53, 2)).astype(np.float32)
    expected = tf.image.resize(image, RESIZED, antialias=True).numpy()[2:17, 3:12]
    np.testing.assert_allclose(_resample(image), expected, atol=6e4 * 1e-5)


def test_what_is_no_number_spoils_only_what_it_is_part_of():
    image = np.ones((37, 53, 1), np.float32)
    image[20, 20] = np.nan
    expected = tf.image.resize(image, RESIZED, antialias=True).numpy()[2:17, 3:12]
    np.testing.assert_array_equal(np.isnan(_resample(image)), np.isnan(expected))
    assert 0 < np.isnan(expected).sum() < 10


def draw(size, channels=3):
    return np.random.default_rng(7).integers(0, 256, (*size, channels), np.uint8)


def resample_both(image, resized, offset, window):
    """By SciPy and by TensorFlow."""
    out = np.empty((*window, image.shape[2]), np.uint8)
    fast.resample_window(image, resized, offset, out)
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
    start, matrix = fast.make_matrix(side, resized, offset, resized - offset, 1)
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


def test_strips_of_matrices_change_nothing(monkeypatch):
    image = draw((70, 90))
    whole, _ = resample_both(image, (33, 44), (1, 2), (30, 40))
    monkeypatch.setattr(fast, "_STRIP_BYTES", 1)
    strips, _ = resample_both(image, (33, 44), (1, 2), (30, 40))
    np.testing.assert_array_equal(whole, strips)
