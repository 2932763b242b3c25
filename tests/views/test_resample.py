import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.views.resample import resample_window
from tests.drawings import draw_smooth

pytestmark = pytest.mark.unit


@settings(deadline=None, max_examples=60)
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
    # Half a gray level of rounding; and single precision, which places samples anew.
    assert np.abs(result.numpy() - expected).max() <= 0.5 + 2e-2


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
