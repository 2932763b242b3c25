import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from image_pipeline.components.augment import rand_augment
from tests.augment.ways import make_batch

pytestmark = pytest.mark.unit


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
