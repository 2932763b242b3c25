import numpy as np
import pytest
import scipy.ndimage
import tensorflow as tf
from PIL import Image, ImageOps

from image_pipeline.components.augment import draws, rand_augment
from image_pipeline.components.augment.color import (
    color_jitter,
    gaussian_blur,
    grayscale,
    weigh_taps,
)
from image_pipeline.components.augment.options import ColorJitter, GaussianBlur, Grayscale
from tests.augment.test_levels import _shift_hue as shift_hue
from tests.augment.ways import make_batch, make_keys, run_in_all_ways
from tests.tiers import wide

pytestmark = pytest.mark.unit


def _draw(number, least, greatest):
    """A multiple of 1 / 4096 between the bounds."""
    first, last = round(least * 4096), round(greatest * 4096)
    return (first + int(np.float32(number) * np.float32(last - first + 1))) / 4096


def _blend(image, other, factor):
    return np.clip(np.round(other + factor * (image - other)), 0, 255).astype(np.uint8)


def _gray(image):
    if image.shape[-1] == 1:
        return image.astype(float)
    return np.asarray(Image.fromarray(image).convert("L"), float)[..., None]


def _jitter(image, numbers, options):
    """The step, one image at a time: uint8, after each of the four."""
    chance, brightness, contrast, saturation, hue = numbers
    if chance >= options.probability:
        return image

    def factor(number, strength):
        return _draw(number, max(0, 1 - strength), 1 + strength)

    if options.brightness:
        image = _blend(image, 0.0, factor(brightness, options.brightness))
    if options.contrast:
        mean = np.floor(_gray(image).mean() + 0.5)
        image = _blend(image, mean, factor(contrast, options.contrast))
    if options.saturation:
        image = _blend(image, _gray(image), factor(saturation, options.saturation))
    if options.hue and image.shape[-1] == 3:
        sixths = _draw(hue, -6 * options.hue, 6 * options.hue)
        pixels = [shift_hue(pixel, sixths) for pixel in image.reshape(-1, 3)]
        image = np.reshape(pixels, image.shape).astype(np.uint8)
    return image


ALL = {"brightness": 0.4, "contrast": 0.5, "saturation": 0.6, "hue": 0.1}


@pytest.mark.parametrize(
    "settings",
    [
        ALL,
        ALL | {"probability": 0.4},
        {"brightness": 1.5},
        {"contrast": 2},
        {"saturation": 0.9},
        {"hue": 0.5},
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(7, 5), wide((8, 8))])
def test_every_level_is_the_oracles(settings, channels, size):
    batch, keys, options = (
        make_batch(12, *size, channels),
        make_keys(12, 1),
        ColorJitter(**settings),
    )
    after = run_in_all_ways(color_jitter, batch, keys, options).images
    numbers = draws.uniform(keys, 5).numpy()
    for image, own_numbers, jittered in zip(batch.images.numpy(), numbers, after, strict=True):
        np.testing.assert_array_equal(jittered, _jitter(image, own_numbers, options))


@pytest.mark.parametrize("options", [ColorJitter(), ColorJitter(**ALL, probability=0)])
def test_no_strength_or_no_probability_changes_nothing(options):
    batch = make_batch(8)
    after = run_in_all_ways(color_jitter, batch, make_keys(8), options)
    np.testing.assert_array_equal(after.images, batch.images)


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_chosen_images_are_pillows_gray_and_the_others_as_they_were(probability):
    batch, keys = make_batch(30), make_keys(30)
    after = run_in_all_ways(grayscale, batch, keys, Grayscale(probability=probability)).images
    chosen = draws.uniform(keys, 1)[:, 0].numpy() < probability
    for image, gray, is_chosen in zip(batch.images.numpy(), after, chosen, strict=True):
        expected = Image.fromarray(image)
        expected = expected.convert("L").convert("RGB") if is_chosen else expected
        np.testing.assert_array_equal(gray, np.asarray(expected))
    assert {0.0: 0, 1.0: 30}.get(probability, chosen.sum()) == chosen.sum()
    assert probability != 0.3 or 3 < chosen.sum() < 17


def test_one_channel_stays_as_it_is():
    batch = make_batch(4, channels=1)
    after = run_in_all_ways(grayscale, batch, make_keys(4), Grayscale(probability=1))
    np.testing.assert_array_equal(after.images, batch.images)


def _images():
    """Noise, few levels, one level, an empty channel, a large one: uint8 [6, 40, 40, 3]."""
    noise = make_batch(6, 40, 40, seed=5).images.numpy()
    noise[1] = noise[1] // 4 + 80
    noise[2] = noise[2] // 64 * 20
    noise[3] = 17
    noise[4, ..., 1] = 255
    noise[5] = np.where(noise[5] < 250, 3, noise[5])
    return noise


def _run(function, images, *arguments):
    """The same bits eagerly and by XLA."""
    eager = function(tf.constant(images), *arguments)
    compiled = tf.function(lambda each: function(each, *arguments), jit_compile=True)
    np.testing.assert_array_equal(compiled(tf.constant(images)), eager)
    assert eager.dtype == tf.uint8
    return eager.numpy()


def _pillow(function, images, *arguments):
    return np.stack([np.asarray(function(Image.fromarray(each), *arguments)) for each in images])


@pytest.mark.parametrize("bits", [1, 4, 7, 8])
def test_posterize_is_pillows(bits):
    images = _images()
    expected = _pillow(ImageOps.posterize, images, bits)
    np.testing.assert_array_equal(_run(rand_augment.posterize, images, bits), expected)


@pytest.mark.parametrize("threshold", [0, 25.5, 128, 255])
def test_solarize_is_pillows(threshold):
    images = _images()
    expected = _pillow(ImageOps.solarize, images, threshold)
    np.testing.assert_array_equal(_run(rand_augment.solarize, images, threshold), expected)


def test_equalize_is_pillows():
    images = _images()
    expected = _pillow(ImageOps.equalize, images)
    np.testing.assert_array_equal(_run(rand_augment.equalize, images), expected)
    assert (expected[0] != images[0]).any() and (expected[3] == images[3]).all()


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (16, 17), (23, 23)])
def test_equalize_is_pillows_for_few_pixels(size):
    """Fewer pixels than levels leave an image as it is, few more give levels over 255."""
    images = make_batch(4, *size, seed=1).images.numpy()
    images[1] = np.minimum(images[1], 3)
    expected = _pillow(ImageOps.equalize, images)
    np.testing.assert_array_equal(_run(rand_augment.equalize, images), expected)


def test_equalize_of_one_channel():
    images = make_batch(2, 30, 30, channels=1).images.numpy()
    expected = _pillow(ImageOps.equalize, images[..., 0])
    np.testing.assert_array_equal(_run(rand_augment.equalize, images)[..., 0], expected)


def _spread_levels(channel):
    least, greatest = int(channel.min()), int(channel.max())
    if least == greatest:
        return channel
    return (channel.astype(int) - least) * 255 // (greatest - least)


def test_autocontrast_is_the_exact_quotient_rounded_down():
    images = _images()
    spread = [[_spread_levels(each[..., c]) for c in range(3)] for each in images]
    expected = np.moveaxis(np.array(spread), 1, -1)
    np.testing.assert_array_equal(_run(rand_augment.autocontrast, images), expected)


def test_autocontrast_of_every_pair_of_bounds_is_exact_and_pillows_but_for_its_rounding_errors():
    images = np.zeros([255, 1, 256, 1], np.uint8)
    for greatest in range(1, 256):
        images[greatest - 1, 0, :, 0] = np.minimum(np.arange(256), greatest)
    for least in (0, 1, 100):
        shown = np.maximum(images[least:], least)
        spread = _run(rand_augment.autocontrast, shown)
        for before, after in zip(shown, spread, strict=True):
            np.testing.assert_array_equal(after, _spread_levels(before))
            pillow = np.asarray(ImageOps.autocontrast(Image.fromarray(before[..., 0])))
            assert ((after[..., 0] - pillow) <= 1).all()


def _blur(image, place, sigma_px):
    """Pixel by pixel: first down the columns to sixteenths, then along the rows."""
    levels = image.astype(np.float64)
    for axis, ticks in ((0, 16), (1, 1)):
        half = weigh_taps(sigma_px, image.shape[axis])[place].astype(np.float64)
        weights = np.concatenate([half[:0:-1], half])
        padding = [(0, 0)] * 3
        padding[axis] = (len(half) - 1, len(half) - 1)
        padded = np.pad(levels, padding, mode="reflect")
        levels = np.zeros_like(levels)
        for place_in_kernel, weight in enumerate(weights):
            window = range(place_in_kernel, place_in_kernel + image.shape[axis])
            levels += weight * np.take(padded, window, axis)
        levels = np.round(levels * ticks) / ticks
    return levels.astype(np.uint8)


@pytest.mark.parametrize("sigma_px", [(0.1, 2.0), (0.5, 0.5), (0.1, 0.3), (3, 9)])
@pytest.mark.parametrize("size", [(7, 5), wide((8, 8)), (20, 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_level_of_a_blur_is_the_oracles(sigma_px, size, channels):
    batch, keys = make_batch(9, *size, channels), make_keys(9, 2)
    options = GaussianBlur(sigma_px=sigma_px, probability=0.8)
    after = run_in_all_ways(gaussian_blur, batch, keys, options).images
    numbers = draws.uniform(keys, 2).numpy()
    for image, (chance, number), blurred in zip(batch.images.numpy(), numbers, after, strict=True):
        expected = _blur(image, int(number * 257), sigma_px) if chance < 0.8 else image
        np.testing.assert_array_equal(blurred, expected)


@pytest.mark.parametrize("sigma_px", [0.4, 1.0, 2.5])
def test_levels_are_at_most_one_beside_scipys(sigma_px):
    batch = make_batch(3, 40, 30)
    options = GaussianBlur(sigma_px=(sigma_px, sigma_px), probability=1)
    after = gaussian_blur(batch, make_keys(3), options).images.numpy()
    radius = weigh_taps(options.sigma_px, 40).shape[1] - 1
    for image, blurred in zip(batch.images.numpy(), after, strict=True):
        exact = scipy.ndimage.gaussian_filter(
            image.astype(float), (sigma_px, sigma_px, 0), mode="mirror", radius=(radius, radius, 0)
        )
        assert np.abs(blurred - exact).max() < 1


def test_weights_sum_to_one_and_widths_go_from_the_least_to_the_greatest():
    weights = weigh_taps((0.5, 2.0), 100)
    assert weights.shape == (257, 7)
    np.testing.assert_array_equal(2 * weights.sum(axis=1) - weights[:, 0], 1)
    assert (weights * 4096 == np.round(weights * 4096)).all()
    assert (np.diff(weights[:, 0]) <= 1e-3).all()
    for row, sigma_px in ((0, 0.5), (128, 1.25), (256, 2.0)):
        expected = np.exp(-1 / (2 * sigma_px**2))
        assert weights[row, 1] / weights[row, 0] == pytest.approx(expected, rel=0.005)


def test_a_constant_image_stays_constant():
    batch = make_batch(5, 9, 9)
    white = batch._replace(images=batch.images * 0 + 255)
    after = gaussian_blur(white, make_keys(5), GaussianBlur(probability=1))
    np.testing.assert_array_equal(after.images, white.images)


@pytest.mark.parametrize(("probability", "least", "most"), [(0, 0, 0), (0.5, 5, 15), (1, 20, 20)])
def test_as_many_images_are_blurred_as_probable(probability, least, most):
    batch = make_batch(20, 9, 9)
    options = GaussianBlur(sigma_px=(1, 2), probability=probability)
    after = gaussian_blur(batch, make_keys(20), options).images
    changed = (after.numpy() != batch.images.numpy()).any(axis=(1, 2, 3)).sum()
    assert least <= changed <= most
