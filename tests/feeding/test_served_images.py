import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.served_images import decode_window, make_image
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast import crop_and_resize
from image_pipeline.components.views.options import ViewOptions
from tests import shards
from tests.drawings import draw_noisy, draw_smooth

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=24, width_px=32)


def parsed(image, image_format="png"):
    return parse.parse_record(
        shards.make_example(image, image_format=image_format), parse.IMAGE_COLUMNS
    )


@pytest.mark.parametrize("image_format", ["jpeg", "png", "raw"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_decoded_window_equals_decoding_then_cropping(image_format, channels):
    features = parsed(shards.draw_image(1, 40, 56), image_format)
    decode, view = tf.function(decode_window, autograph=False), ViewOptions(channels=channels)
    window = decode(features, tf.constant([3, 17, 20, 30]), view)
    whole = parse.decode_record(features, view)
    np.testing.assert_array_equal(window, whole[3:23, 17:47])


@pytest.mark.parametrize("channels", [1, 3])
def test_the_colours_at_a_windows_border_are_those_of_the_whole_image(channels):
    features = parsed(draw_noisy(121, 183), "jpeg")
    decode, view = tf.function(decode_window, autograph=False), ViewOptions(channels=channels)
    whole = parse.decode_record(features, view).numpy()
    draws = np.random.default_rng(0)
    for _ in range(100):
        height, width = draws.integers(1, (122, 184))
        top, left = draws.integers(0, (122 - height, 184 - width))
        window = decode(features, tf.constant([top, left, height, width], tf.int32), view)
        expected = whole[top : top + height, left : left + width]
        np.testing.assert_array_equal(window, expected)


def test_without_a_window_it_is_the_eval_view():
    image = draw_smooth(3, 40, 56)
    expected = views.eval_view(tf.constant(image), VIEW)
    np.testing.assert_array_equal(make_image(parsed(image), None, VIEW), expected)


@pytest.mark.parametrize("window", [[3, 17, 20, 30], [0, 0, 40, 56], [5, 5, 24, 32], [1, 2, 7, 9]])
def test_a_crop_is_opencvs_to_within_one_level(window):
    image = np.random.default_rng(1).integers(0, 256, (40, 56, 3), np.uint8)
    expected = np.empty((24, 32, 3), np.uint8)
    crop_and_resize(image, np.array(window), expected)
    found = make_image(parsed(image), tf.constant(window), VIEW).numpy()
    assert np.abs(found.astype(int) - expected).max() <= 1
