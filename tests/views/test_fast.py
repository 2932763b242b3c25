import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast import (
    crop_and_resize,
    decode_image,
    take_eval_view,
)
from image_pipeline.components.views.options import ViewOptions
from tests import shards
from tests.drawings import draw_smooth

pytestmark = pytest.mark.unit


def store(image, image_format):
    return StoredImage(
        shards.encode_image(image, image_format), *image.shape, image_format == "raw"
    )


def draw_noisy(height=61, width=83, channels=3):
    """Odd sides, so that the colour of a JPEG is upsampled at its borders too."""
    noise = np.random.default_rng(2).integers(0, 30, (height, width, channels), np.uint8)
    return draw_smooth(4, height, width)[..., :channels] // 2 + noise


@pytest.mark.parametrize("image_format", ["jpeg", "png", "bmp", "gif", "raw"])
@pytest.mark.parametrize("stored", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_pixels_are_those_that_tensorflow_decodes(image_format, stored, channels):
    image = store(draw_noisy(channels=stored), image_format)
    found = decode_image(image, channels)
    if image.is_raw:
        pixels = np.frombuffer(image.encoded, np.uint8).reshape(61, 83, stored)
        expected = views.convert_channels(tf.constant(pixels), channels)
    else:
        expected = views.decode_image(tf.constant(image.encoded), channels)
    np.testing.assert_array_equal(found, expected)
    assert found.shape == (61, 83, channels)


@pytest.mark.parametrize("image_format", ["jpeg", "png"])
def test_a_memoryview_is_read_too(image_format):
    image = store(draw_noisy(), image_format)
    viewed = image._replace(encoded=memoryview(b"....." + image.encoded)[5:])
    np.testing.assert_array_equal(decode_image(viewed, 3), decode_image(image, 3))


@pytest.mark.parametrize("image_format", ["jpeg", "png"])
@pytest.mark.parametrize("kept", [0.5, 0.9])
def test_what_is_cut_off_is_an_error_and_not_gray(image_format, kept):
    image = store(draw_noisy(), image_format)
    cut = image._replace(encoded=image.encoded[: int(len(image.encoded) * kept)])
    with pytest.raises(ValueError, match="its image cannot be decoded"):
        decode_image(cut, 3)


def test_raw_pixels_must_be_as_many_as_the_sides_say():
    image = store(draw_noisy(), "raw")
    with pytest.raises(ValueError, match=r"it has 15189 bytes, but .* shape \(61, 84, 3\)"):
        decode_image(image._replace(width=84), 3)


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
