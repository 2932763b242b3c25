"""Sums over pixels, against Python's unbounded integers."""

import concurrent.futures

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from image_pipeline.components.transform.pixel_sums import PixelSums, sums_length

pytestmark = pytest.mark.unit


def exact_sums(image):
    """The same by Python's integers."""
    pixels = image.reshape(-1, image.shape[-1]).tolist()
    channels = list(zip(*pixels, strict=True))
    squares = [sum(value**2 for value in channel) for channel in channels]
    return [len(pixels), *map(sum, channels), *squares]


SHAPES = arrays.array_shapes(min_dims=3, max_dims=3, max_side=9)


@given(arrays.arrays(np.uint8, SHAPES))
def test_sums_are_those_of_integers(image):
    found = PixelSums(*image.shape).sum(image)
    assert found.dtype == np.int64 and len(found) == sums_length(image.shape[-1])
    assert found.tolist() == exact_sums(image)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 30), max_size=5))
def test_sums_of_parts_add_up_whatever_the_parts_are(seed, cuts):
    image = np.random.default_rng(seed).integers(0, 256, (31, 7, 3), np.uint8)
    parts = [part for part in np.split(image, sorted(cuts)) if len(part)]
    added = sum(PixelSums(*part.shape).sum(part) for part in parts)
    assert added.tolist() == exact_sums(image)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 255])
def test_any_number_of_channels(channels):
    image = np.random.default_rng(channels).integers(0, 256, (6, 5, channels), np.uint8)
    assert PixelSums(*image.shape).sum(image).tolist() == exact_sums(image)


def test_the_greatest_sums_of_a_large_image():
    # Squares add up to 1.6e12, which no 32-bit integer and no float32 holds.
    image = np.full((5000, 5000, 3), 255, np.uint8)
    found = PixelSums(*image.shape).sum(image).tolist()
    assert found == [25_000_000, *[25_000_000 * 255] * 3, *[25_000_000 * 255**2] * 3]


@pytest.mark.parametrize("seed", range(3))
def test_large_images_lose_nothing(seed):
    generator = np.random.default_rng(seed)
    image = generator.integers(generator.integers(0, 250), 256, (1500, 2001, 3), np.uint8)
    wide = image.reshape(-1, 3).astype(np.int64)
    expected = [len(wide), *wide.sum(axis=0), *np.square(wide).sum(axis=0)]
    assert PixelSums(*image.shape).sum(image).tolist() == expected


def test_a_part_of_an_image_need_not_be_copied():
    whole = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    part = whole[3:11, 4:9]
    assert PixelSums(8, 5, 3).sum(part).tolist() == exact_sums(part)


def test_threads_share_it():
    images = np.random.default_rng(1).integers(0, 256, (64, 40, 50, 3), np.uint8)
    sums = PixelSums(40, 50, 3)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = [each.tolist() for each in pool.map(sums.sum, images)]
    assert found == [exact_sums(image) for image in images]
