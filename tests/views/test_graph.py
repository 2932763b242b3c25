import io

import cv2
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.images.prepare import nearest_indices
from image_pipeline.components.labels.masks import encode_mask
from image_pipeline.components.views import fast_resample, resample
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast import take_eval_view, view_mask
from image_pipeline.components.views.fast_decode import decode_mask
from image_pipeline.components.views.options import ViewOptions, resized_size
from image_pipeline.components.views.resample import resample_floats, resample_window
from tests import shards
from tests.drawings import draw_smooth

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
    # Half a gray level of rounding, a sixteenth between the two directions; and both's weights,
    # each of whose sums up to a pixel is off by at most 2⁻¹⁴, times what the next pixel differs.
    steps = (np.abs(np.diff(image.astype(int), axis=axis)) for axis in (0, 1))
    of_weights = sum(each.sum(axis).max(initial=0) for axis, each in enumerate(steps)) / 2**14
    assert np.abs(result.numpy() - expected).max() <= 0.5 + 1 / 16 + of_weights + 1e-3


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


def test_strips_of_matrices_change_nothing(monkeypatch):
    image = draw((70, 90))
    whole, _ = resample_both(image, (33, 44), (1, 2), (30, 40))
    monkeypatch.setattr(fast_resample, "_STRIP_BYTES", 1)
    strips, _ = resample_both(image, (33, 44), (1, 2), (30, 40))
    np.testing.assert_array_equal(whole, strips)
