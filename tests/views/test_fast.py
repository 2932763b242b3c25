import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.images.prepare import encode
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast import (
    crop_and_resize,
    find_needed,
    take_eval_view,
    view_image,
    view_pixels,
)
from image_pipeline.components.views.fast_decode import decode_whole
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw_noisy

pytestmark = pytest.mark.unit


def test_a_crop_of_the_right_size_is_cut():
    image, out = draw_noisy(), np.empty((20, 30, 3), np.uint8)
    crop_and_resize(image, np.array([3, 7, 20, 30]), out)
    np.testing.assert_array_equal(out, image[3:23, 7:37])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_crop_is_resized_bilinearly(channels):
    image = draw_noisy(channels=channels)
    out = np.empty((40, 44, channels), np.uint8)
    crop_and_resize(image, np.array([3, 7, 20, 31]), out)
    for plane in range(channels):
        cropped = Image.fromarray(image[3:23, 7:38, plane].astype(np.float32))
        # Enlarging, Pillow's bilinear filter is OpenCV's.
        expected = np.asarray(cropped.resize((44, 40), Image.Resampling.BILINEAR))
        assert np.abs(out[..., plane] - expected).max() <= 1


@pytest.mark.parametrize(
    ("size", "fraction"),
    [((61, 83), 1.0), ((61, 83), 0.875), ((32, 40), 1.0), ((30, 20), 0.5), ((64, 64), 0.5)],
)
def test_the_eval_view_is_that_of_serving(size, fraction):
    view = ViewOptions(height_px=32, width_px=32, crop_fraction=fraction)
    image, out = draw_noisy(*size), np.empty((32, 32, 3), np.uint8)
    take_eval_view(image, view, out)
    np.testing.assert_array_equal(out, views.eval_view(tf.constant(image), view))


@pytest.mark.parametrize("stored_format", ["jpeg", "png", "raw"])
@pytest.mark.parametrize("window", [None, (33, 70, 40, 61), (10, 20, 32, 32), (0, 0, 200, 256)])
@pytest.mark.parametrize("fraction", [32 / 200, 0.875, 1.0])
def test_a_stored_image_has_the_views_of_its_pixels(stored_format, window, fraction):
    view = ViewOptions(height_px=32, width_px=32, crop_fraction=fraction)
    encoded = encode(draw_noisy(200, 256), stored_format, 90)
    image = StoredImage(encoded, 200, 256, 3, stored_format == "raw")
    found, expected = np.empty((2, 32, 32, 3), np.uint8)
    window = None if window is None else np.array(window, np.int32)
    view_image(image, window, view, found)
    view_pixels(decode_whole(image, 3), window, view, expected)
    np.testing.assert_array_equal(found, expected)
    if window is None and stored_format != "raw":
        served = views.eval_view(views.decode_image(tf.constant(encoded), 3), view)
        np.testing.assert_array_equal(found, served)


@pytest.mark.parametrize(
    ("window", "fraction", "needed"),
    [
        (np.array([3, 7, 20, 30]), 1.0, [3, 7, 20, 30]),
        (None, 32 / 61, (14, 25, 32, 32)),
        (None, 1.0, None),  # All of it is resized.
    ],
)
def test_a_view_needs_its_window(window, fraction, needed):
    view = ViewOptions(height_px=32, width_px=32, crop_fraction=fraction)
    assert find_needed((61, 83), window, view) == needed
