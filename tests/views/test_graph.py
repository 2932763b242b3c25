import io

import cv2
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.images.prepare import nearest_indices
from image_pipeline.components.labels.masks import encode_mask
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast import take_eval_view, view_mask
from image_pipeline.components.views.fast_decode import decode_mask
from image_pipeline.components.views.options import ViewOptions, resized_size
from tests import shards

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("image_format", ["png", "bmp"])
def test_lossless_files_decode_to_their_pixels(image_format):
    image = shards.draw_image(1)
    decoded = views.decode_image(tf.constant(shards.encode_image(image, image_format)), 3)
    np.testing.assert_array_equal(decoded, image)


def test_jpeg_decodes_as_pillow_decodes_it():
    encoded = shards.encode_image(shards.draw_image(1, 32, 48), "jpeg")
    expected = np.asarray(Image.open(io.BytesIO(encoded)))
    np.testing.assert_array_equal(views.decode_image(tf.constant(encoded), 3), expected)


def test_an_animated_gif_gives_its_first_frame():
    frames = [Image.new("RGB", (5, 4), colour) for colour in ("red", "blue")]
    file = io.BytesIO()
    frames[0].save(file, "gif", save_all=True, append_images=frames[1:])
    decoded = views.decode_image(tf.constant(file.getvalue()), 3)
    np.testing.assert_array_equal(decoded, np.broadcast_to([255, 0, 0], (4, 5, 3)))


@pytest.mark.parametrize("image_format", ["png", "jpeg", "bmp", "gif"])
@pytest.mark.parametrize("stored_channels", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_format_gives_the_channels_asked_for(image_format, stored_channels, channels):
    image = shards.draw_image(2, channels=stored_channels)
    encoded = tf.constant(shards.encode_image(image, image_format))
    decoded = tf.function(lambda: views.decode_image(encoded, channels))()
    assert decoded.shape == (12, 16, channels)
    if stored_channels == channels == 1 and image_format != "jpeg":
        np.testing.assert_array_equal(decoded, image)


@pytest.mark.parametrize("encoded", [b"", b"\xff\xd8\xff", b"no image"])
def test_what_is_no_image_is_an_error(encoded):
    with pytest.raises(tf.errors.InvalidArgumentError):
        views.decode_image(tf.constant(encoded), 3)


def test_raw_pixels_are_row_major():
    pixels = tf.constant(bytes(range(12)))
    raw = views.decode_raw(pixels, tf.constant(2, tf.int64), tf.constant(2, tf.int64), 3)
    np.testing.assert_array_equal(raw, np.arange(12).reshape(2, 2, 3))


def test_grey_becomes_three_equal_channels():
    colour = views.convert_channels(tf.constant([[[1], [200]]], tf.uint8), 3)
    np.testing.assert_array_equal(colour, [[[1, 1, 1], [200, 200, 200]]])


def test_colour_becomes_its_luma():
    grey = views.convert_channels(tf.constant([[[255, 0, 0], [9, 9, 9]]], tf.uint8), 1)
    np.testing.assert_array_equal(grey, [[[76], [9]]])


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_of_the_right_channels_is_left_alone(channels):
    image = tf.constant(shards.draw_image(3, channels=channels))
    np.testing.assert_array_equal(views.convert_channels(image, channels), image)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_traced_view_is_the_view_and_is_traced_once(dtype):
    options = {"height_px": 5, "width_px": 9, "channels": 2, "dtype": dtype}
    take = views.trace_eval_view(ViewOptions(**options))
    assert views.trace_eval_view(ViewOptions(**options)) is take
    for size in ((20, 31), (5, 9), (3, 4)):
        image = tf.cast(tf.random.stateless_uniform([*size, 2], (1, 2), 0, 256), dtype)
        np.testing.assert_array_equal(take(image), views.eval_view(image, ViewOptions(**options)))
    assert take.experimental_get_tracing_count() == 1


def test_an_image_of_the_inputs_size_is_untouched():
    image = shards.draw_image(4, 8, 6)
    view = views.eval_view(tf.constant(image), ViewOptions(height_px=8, width_px=6))
    np.testing.assert_array_equal(view, image)


def test_a_wide_image_gives_its_centre():
    image = shards.draw_image(4, 8, 14)
    view = views.eval_view(tf.constant(image), ViewOptions(height_px=8, width_px=8))
    np.testing.assert_array_equal(view, image[:, 3:11])


def test_a_crop_fraction_magnifies():
    image = shards.draw_image(4, 7, 7)
    options = ViewOptions(height_px=7, width_px=7, crop_fraction=0.875)
    expected = tf.image.resize(image, [8, 8])[:7, :7]
    view = views.eval_view(tf.constant(image), options)
    # Rounded to eighths between the two directions, and in the end.
    np.testing.assert_allclose(view, expected, atol=0.5 + 1 / 16)


@given(
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    target=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    crop_fraction=st.floats(0.3, 1.0),
)
def test_every_size_gives_the_inputs_size(size, target, crop_fraction):
    options = ViewOptions(
        height_px=target[0], width_px=target[1], channels=1, crop_fraction=crop_fraction
    )
    view = views.eval_view(tf.fill([*size, 1], tf.constant(77, tf.uint8)), options)
    np.testing.assert_array_equal(view, np.full([*target, 1], 77))


SIDE = st.integers(1, 23)


def draw_mask(seed, height, width):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 1), np.uint8)


def _nearest(place, length, count):
    """The pixel of `length` in which the middle of pixel `place` of `count` lies; exactly."""
    for old in range(length):
        # old / length <= (place + 1/2) / count < (old + 1) / length
        if 2 * old * count <= (2 * place + 1) * length < 2 * (old + 1) * count:
            return old
    raise AssertionError


@given(SIDE, SIDE)
def test_the_nearest_indices_are_those_of_the_middles(length, count):
    assert nearest_indices(length, count).tolist() == [
        _nearest(place, length, count) for place in range(count)
    ]


def test_the_same_size_takes_each_pixel_once():
    assert nearest_indices(7, 7).tolist() == list(range(7))


@given(SIDE, SIDE, SIDE, SIDE, st.sampled_from([1.0, 0.875, 0.5]), st.integers(0, 99))
def test_the_deterministic_view_is_the_same_in_every_way(h, w, height, width, fraction, seed):
    view = ViewOptions(height_px=height, width_px=width, channels=1, crop_fraction=fraction)
    mask = draw_mask(seed, h, w)
    fast = np.empty((height, width, 1), np.uint8)
    view_mask(mask, None, view, fast)
    np.testing.assert_array_equal(views.eval_mask_view(tf.constant(mask), view), fast)
    new_height, new_width = resized_size((h, w), view)
    top, left = (new_height - height) // 2, (new_width - width) // 2
    for y in range(height):
        for x in range(width):
            row, column = _nearest(top + y, h, new_height), _nearest(left + x, w, new_width)
            assert fast[y, x] == mask[row, column]


@given(st.data())
def test_a_random_crop_is_the_same_in_every_way(data):
    h, w, height, width = (data.draw(SIDE) for _ in range(4))
    top, left = data.draw(st.integers(0, h - 1)), data.draw(st.integers(0, w - 1))
    window = [top, left, data.draw(st.integers(1, h - top)), data.draw(st.integers(1, w - left))]
    view = ViewOptions(height_px=height, width_px=width)
    mask = draw_mask(0, h, w)
    fast = np.empty((height, width, 1), np.uint8)
    view_mask(mask, np.array(window, np.int32), view, fast)
    for y in range(height):
        for x in range(width):
            row, column = top + _nearest(y, window[2], height), left + _nearest(x, window[3], width)
            assert fast[y, x] == mask[row, column]


@pytest.mark.parametrize("size", [(40, 60), (61, 45), (32, 32)])
@pytest.mark.parametrize("window", [None, [3, 5, 25, 21]])
def test_a_mask_drawn_as_its_image_has_the_view_of_its_image(size, window):
    """Away from edges, where images are smoothed, both show the same."""
    y, x = np.mgrid[0 : size[0], 0 : size[1]]
    drawn = np.where((y - 14) ** 2 + (x - 16) ** 2 < 90, 200, 0).astype(np.uint8)[..., None]
    view = ViewOptions(height_px=24, width_px=20, channels=1)
    image, mask = (np.empty((24, 20, 1), np.uint8) for _ in range(2))
    if window is None:
        take_eval_view(drawn, view, image)
    else:
        top, left, height, width = window
        cropped = drawn[top : top + height, left : left + width]
        image[...] = cv2.resize(cropped, (20, 24), interpolation=cv2.INTER_LINEAR)[..., None]
    view_mask(drawn, None if window is None else np.array(window), view, mask)
    assert {*np.unique(mask)} == {0, 200}
    np.testing.assert_array_equal(
        mask > 100, np.where(np.abs(image.astype(int) - 100) < 60, mask, image) > 100
    )
    assert (np.abs(image.astype(int) - 100) < 60).mean() < 0.2


def test_a_stored_mask_is_decoded_as_it_was():
    mask = draw_mask(1, 12, 7)
    np.testing.assert_array_equal(decode_mask(encode_mask(mask), (12, 7)), mask)
    np.testing.assert_array_equal(decode_mask(memoryview(encode_mask(mask)), (12, 7)), mask)


def test_what_is_no_mask_of_its_image_is_refused():
    encoded = encode_mask(draw_mask(1, 12, 7))
    with pytest.raises(ValueError, match=r"^its mask has 12 x 7 pixels, and should have 7 x 12"):
        decode_mask(encoded, (7, 12))
    for data in (b"text", b"", encoded[:40], encoded[:-20]):
        with pytest.raises(
            ValueError, match=r"^its mask cannot be decoded, and should have 12 x 7"
        ):
            decode_mask(data, (12, 7))
