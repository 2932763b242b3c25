import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.color import color_jitter, grayscale
from image_pipeline.components.augment.options import ColorJitter, Grayscale
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
