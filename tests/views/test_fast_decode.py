import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast_decode import decode_image
from tests import shards
from tests.drawings import draw_noisy

pytestmark = pytest.mark.unit


def store(image, image_format):
    return StoredImage(
        shards.encode_image(image, image_format), *image.shape, image_format == "raw"
    )


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
