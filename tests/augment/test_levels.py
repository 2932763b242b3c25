import colorsys
from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageFilter, ImageStat

from image_pipeline.components.augment import color
from image_pipeline.components.augment.apply import apply_steps
from image_pipeline.components.augment.options import COLORS, LEVELS, RULES, STEPS, read_step
from image_pipeline.components.errors import UserError
from image_pipeline.components.rules import check
from image_pipeline.components.views.options import ViewOptions
from tests.augment.ways import EXAMPLES, make_batch, make_keys

pytestmark = pytest.mark.unit

FACTORS = np.array([0, 0.25, 1, 1.5, 1447 / 4096, 7913 / 4096], np.float32)[:, None, None, None]


@pytest.fixture
def images():
    """Six images of random pixels: uint8 [6, 7, 5, 3]."""
    return make_batch(6, seed=3).images.numpy()


def _run(function, images, *arguments):
    """The same bits eagerly and by XLA: whole levels, here as uint8."""

    def run(*arguments):
        return function(tf.cast(images, tf.float32), *arguments)

    eager = run(*arguments).numpy()
    np.testing.assert_array_equal(tf.function(run, jit_compile=True)(*arguments), eager)
    assert ((eager == np.round(eager)) & (eager >= 0) & (eager <= 255)).all()
    return eager.astype(np.uint8)


def _blend(images, others, factors):
    """Without a rounding error in between: float64 holds all that float32 numbers multiply to."""
    others = np.asarray(others, np.float64)
    mixed = others + factors.astype(np.float64) * (images - others)
    return np.clip(np.round(mixed), 0, 255).astype(np.uint8)


def _gray(image):
    return np.asarray(Image.fromarray(image).convert("L"))


def test_gray_is_pillows_for_every_colour_of_a_grid():
    steps = np.array([*range(0, 256, 5), 1, 2, 127, 128, 254], np.uint8)
    colours = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, len(steps), -1, 3)
    np.testing.assert_array_equal(_run(color.to_gray, colours)[0, ..., 0], _gray(colours[0]))


def test_brightness_is_a_product(images):
    expected = _blend(images, 0, FACTORS)
    np.testing.assert_array_equal(_run(color.scale_brightness, images, FACTORS), expected)
    assert (expected[0] == 0).all() and (expected[2] == images[2]).all()


def test_contrast_blends_with_the_rounded_mean_of_gray(images):
    means = [
        int(ImageStat.Stat(Image.fromarray(each).convert("L")).mean[0] + 0.5) for each in images
    ]
    expected = _blend(images, np.reshape(means, [-1, 1, 1, 1]), FACTORS)
    np.testing.assert_array_equal(_run(color.scale_contrast, images, FACTORS), expected)
    assert (expected[0] == means[0]).all()


def test_the_mean_of_gray_is_rounded_half_up():
    image = np.array([3, 4], np.uint8).reshape(1, 1, 2, 1)
    black = np.zeros([1, 1, 1, 1], np.float32)
    assert _run(color.scale_contrast, image, black).ravel().tolist() == [4, 4]


def test_the_mean_of_a_large_white_image_is_white():
    white = tf.fill([1, 3000, 3000, 1], 255.0)
    assert (color.scale_contrast(white, tf.zeros([1, 1, 1, 1])).numpy() == 255).all()


def test_saturation_blends_with_gray(images):
    gray = np.stack([_gray(each) for each in images])[..., None]
    expected = _blend(images, gray, FACTORS)
    np.testing.assert_array_equal(_run(color.scale_saturation, images, FACTORS), expected)


def test_sharpness_blends_with_pillows_smooth(images):
    smooth = [np.asarray(Image.fromarray(each).filter(ImageFilter.SMOOTH)) for each in images]
    expected = _blend(images, np.stack(smooth), FACTORS)
    np.testing.assert_array_equal(_run(color.scale_sharpness, images, FACTORS), expected)


def test_sharpness_leaves_an_image_without_an_inside():
    image = make_batch(1, 2, 9).images.numpy()
    np.testing.assert_array_equal(_run(color.scale_sharpness, image, FACTORS[:1]), image)


def _shift_hue(pixel, sixths):
    """The textbook's way through HSV, in fractions: six cases, exact."""
    red, green, blue = (Fraction(int(level)) for level in pixel)
    value, chroma = max(red, green, blue), max(red, green, blue) - min(red, green, blue)
    if chroma == 0:
        return pixel
    if value == red:
        hue = (green - blue) / chroma
    elif value == green:
        hue = 2 + (blue - red) / chroma
    else:
        hue = 4 + (red - green) / chroma
    hue = (hue + Fraction(float(sixths))) % 6
    part, saturation = hue - int(hue), chroma / value
    low = value * (1 - saturation)
    falling, rising = value * (1 - saturation * part), value * (1 - saturation * (1 - part))
    cases = [
        (value, rising, low),
        (falling, value, low),
        (low, value, rising),
        (low, falling, value),
        (rising, low, value),
        (value, low, falling),
    ]
    return [round(level) for level in cases[int(hue)]]


@pytest.mark.parametrize("sixths", [0, 0.5, -0.5, 3, -3, 1447 / 4096, -8191 / 4096])
def test_hue_is_the_textbooks(images, sixths):
    images[0, 0] = [[0, 0, 0], [255, 255, 255], [255, 0, 0], [9, 200, 200], [200, 9, 200]]
    shifts = np.full([6, 1, 1, 1], sixths, np.float32)
    expected = np.reshape(
        [_shift_hue(pixel, sixths) for pixel in images.reshape(-1, 3)], images.shape
    )
    np.testing.assert_array_equal(_run(color.shift_hue, images, shifts), expected)


def test_hue_is_what_pythons_colorsys_makes_of_it(images):
    shifted = _run(color.shift_hue, images, np.full([6, 1, 1, 1], 0.75, np.float32))
    for before, after in zip(images.reshape(-1, 3), shifted.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(before / 255))
        expected = np.multiply(colorsys.hsv_to_rgb((hue + 0.75 / 6) % 1, saturation, value), 255)
        assert np.abs(after - expected).max() < 0.5 + 1e-6


def test_one_channel_has_no_colour_to_change():
    image = make_batch(6, channels=1).images.numpy()
    for function in (color.scale_saturation, color.shift_hue):
        np.testing.assert_array_equal(_run(function, image, FACTORS), image)


def test_numbers_are_spread_over_the_whole_interval_in_even_steps():
    last = 1 - 2.0**-24
    spread = color.draw_evenly(tf.constant([0, 0.5, last], tf.float32), -1, 2).numpy()
    assert spread.shape == (3, 1, 1, 1)
    assert spread.ravel().tolist() == [-1, 0.5, 2]
    many = color.draw_evenly(tf.range(0, 1, 1 / 999), 0.8, 1.2).numpy() * color.TICKS
    assert (many == np.round(many)).all()
    assert many.min() == round(0.8 * color.TICKS) and many.max() > 1.199 * color.TICKS


# Steps that take any pixels; between them, some compute a mean, and of 8 bits round it.
TAKEN = [each for each in EXAMPLES if LEVELS not in read_step(each).needs]
BLENDS = ("rotate", "mixup")
VARIANTS = [
    {"op": "pad_and_crop", "mode": "constant", "fill": 9},
    {"op": "rotate", "mode": "reflect"},
]


def in_both_types(step):
    batch, keys = make_batch(24, 9, 11), make_keys(24)
    floats = batch._replace(images=tf.cast(batch.images, tf.float32))
    found = (apply_steps(each, keys, [read_step(step)]).images for each in (batch, floats))
    levels, values = (each.numpy() for each in found)
    assert values.dtype == np.float32
    assert not np.array_equal(values, floats.images)
    return levels.astype(np.float32), values


@pytest.mark.parametrize("step", [*TAKEN[1:], *VARIANTS], ids=str)  # The crop is decoding's.
def test_pixels_become_those_of_8_bits_before_they_are_rounded(step):
    levels, values = in_both_types(step)
    is_blend = step["op"] in BLENDS
    assert np.abs(levels - values).max() <= 0.5 * is_blend
    assert (values != np.round(values)).any() == is_blend


def check_steps(steps, dtype, channels):
    view = ViewOptions(dtype=dtype, channels=channels)
    check(RULES, steps=[*map(read_step, steps)], view=view)


@pytest.mark.parametrize("op", [op for op, step in STEPS.items() if LEVELS in step.needs])
def test_steps_of_levels_are_refused_by_name(op):
    message = f"feeding.augment has {op}, which needs levels from 0 to 255, but view.dtype=float32"
    with pytest.raises(UserError, match=message):
        check_steps([op], "float32", 3)


@pytest.mark.parametrize("op", [op for op, step in STEPS.items() if COLORS in step.needs])
def test_steps_of_colours_are_refused_by_name(op):
    message = f"feeding.augment has {op}, which needs gray or RGB, but view.channels=4; leave it"
    with pytest.raises(UserError, match=message):
        check_steps([op], "uint8", 4)


def test_all_others_are_taken():
    check_steps(TAKEN, "float32", 13)
    check_steps([*TAKEN, "gaussian_blur"], "uint8", 13)
