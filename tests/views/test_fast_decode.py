import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.images.prepare import encode
from image_pipeline.components.views import fast_decode
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast import (
    crop_and_resize,
    find_needed,
    take_eval_view,
    view_image,
    view_pixels,
)
from image_pipeline.components.views.fast_decode import decode_image, decode_whole, decode_window
from image_pipeline.components.views.options import ViewOptions
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


@pytest.mark.whole
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


def store_in_tiles(channels=3, height=200, width=256):
    pixels = draw_noisy(height, width, channels)
    encoded = encode(pixels if channels == 3 else pixels[..., 0], "jpeg", 90)
    return StoredImage(encoded, height, width, channels, is_raw=False)


@pytest.fixture(params=[True, False], ids=["few cores", "many"])
def cores(request, monkeypatch):
    """Whether tiles are cut; the names of the decoding functions that are called are listed."""
    monkeypatch.setattr(fast_decode, "_has_few_cores", lambda: request.param)
    return request.param


@pytest.mark.parametrize("image_format", ["tiles", "jpeg", "png", "raw", "bmp"])
@pytest.mark.parametrize("stored", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_window_has_the_pixels_of_the_whole_image(image_format, stored, channels, cores):
    if image_format == "tiles":
        image = store_in_tiles(stored)
    else:
        image = store(draw_noisy(200, 256, stored), image_format)
    found = decode_window(image, channels, (33, 70, 40, 61))
    np.testing.assert_array_equal(found, decode_whole(image, channels)[33:73, 70:131])
    assert found.shape == (40, 61, channels)
    everything = decode_window(image, channels, None)
    np.testing.assert_array_equal(everything, decode_whole(image, channels))


def test_only_tiles_that_are_needed_are_decoded(cores, monkeypatch):
    decode, sizes = fast_decode._decode_jpeg, []

    def decode_noting(encoded, channels):
        pixels = decode(encoded, channels)
        sizes.append(pixels.shape)
        return pixels

    monkeypatch.setattr(fast_decode, "_decode_jpeg", decode_noting)
    decode_window(store_in_tiles(), 3, (33, 70, 40, 50))
    assert sizes == [(64, 64, 3) if cores else (200, 256, 3)]


def test_tiles_are_cut_on_up_to_eight_cores(monkeypatch):
    few = fast_decode._has_few_cores.__wrapped__
    for count in (1, 2, 8, 9, 64):
        monkeypatch.setattr(fast_decode, "usable_cores", lambda count=count: count)
        assert few() == (count <= 8)


def test_an_image_of_another_size_than_its_record_says_is_an_error(cores):
    image = store_in_tiles()._replace(width=255)
    with pytest.raises(ValueError, match="200 x 256 pixels, not the 200 x 255 in its record"):
        decode_window(image, 3, (0, 0, 20, 20))


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_window_of_a_file_that_was_cut_off_is_an_error(kept, cores):
    image = store_in_tiles()
    cut = image._replace(encoded=image.encoded[: int(len(image.encoded) * kept)])
    with pytest.raises(ValueError, match="its image cannot be decoded"):
        decode_window(cut, 3, (0, 0, 20, 20))


def test_a_damaged_tile_is_read_as_serving_reads_it(cores):
    """TensorFlow tolerates it; what decodes a tile alone would have other pixels there."""
    image = store_in_tiles()
    encoded = bytearray(image.encoded)
    start = encoded.index(b"\xff\xd0")
    encoded[start + 12 : start + 40] = bytes(28)
    damaged = image._replace(encoded=bytes(encoded))
    expected = views.decode_image(tf.constant(damaged.encoded), 3).numpy()
    np.testing.assert_array_equal(decode_window(damaged, 3, (0, 64, 16, 64)), expected[:16, 64:128])


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
