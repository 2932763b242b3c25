import numpy as np
import pytest
import scipy.ndimage

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.color import gaussian_blur, weigh_taps
from image_pipeline.components.augment.options import GaussianBlur
from tests.augment.ways import make_batch, make_keys, run_in_all_ways
from tests.tiers import wide

pytestmark = pytest.mark.unit


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
def test_every_level_is_the_oracles(sigma_px, size, channels):
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
