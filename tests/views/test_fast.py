import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast import crop_and_resize, take_eval_view
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
