"""16 bits become 8 by a line between two values, held against arithmetic of NumPy's own."""

import io

import cv2
import numpy as np
import pytest
import tifffile

from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.options import (
    CountedLevels,
    DepthOptions,
    Levels,
    find_levels,
)
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from tests.images import zoo

pytestmark = pytest.mark.unit

DEEP = np.random.default_rng(0).integers(0, 4096, (6, 5, 4), np.uint16)  # as of 12 bits


def stretch(values, low, high):
    """Rounded half up; NumPy's `round` would go to the even one."""
    return np.floor((np.clip(values, low, high) - float(low)) * 255 / (high - low) + 0.5)


def save_tiff(pixels, **settings):
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, **settings)
    return file.getvalue()


def save_png(pixels):
    return cv2.imencode(".png", pixels)[1].tobytes()


def prepare(data, depth, color="rgb"):
    options = {"resize": "none", "encoding": "raw", "color": color, "depth": depth}
    image = prepare_image(data, PrepareOptions.model_validate(options))
    return np.frombuffer(image.encoded, np.uint8).reshape(image.height, image.width, -1)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 65535), (0, 1), (65534, 65535), (0, 4095), (64, 963), (7, 60_001)]
)
def test_every_value_is_rounded_half_up(low, high):
    values = np.arange(65536, dtype=np.uint16)
    narrowed = Levels(low, high).narrow(values)
    np.testing.assert_array_equal(narrowed, stretch(values, low, high))
    if high == 65535 and low == 0:
        np.testing.assert_array_equal(narrowed, (values.astype(int) + 128) // 257)


@pytest.mark.parametrize("depth", [{"low": 64, "high": 3000}, {"high": 4095}])
def test_files_of_every_kind_are_stretched_in_all_channels_alike(depth):
    low, high = depth.get("low", 0), depth["high"]
    gray, color, expected = DEEP[..., 0], DEEP[..., :3], stretch(DEEP, low, high)
    for data in (save_tiff(gray), save_png(gray), zoo.save_array(gray)):
        np.testing.assert_array_equal(prepare(data, depth, "gray")[..., 0], expected[..., 0])
    files = [save_tiff(color, photometric="rgb"), save_png(color[..., ::-1])]
    for data in (*files, zoo.save_array(color)):
        np.testing.assert_array_equal(prepare(data, depth), expected[..., :3])


def test_opacity_and_images_of_8_bits_are_not_stretched():
    alpha = np.linspace(0, 65535, 30).astype(np.uint16).reshape(6, 5)
    pixels = np.dstack([DEEP[..., :3], alpha])
    clear = prepare(save_png(pixels[..., [2, 1, 0, 3]]), {"high": 4095})
    opacity = (alpha[..., None].astype(int) + 128) // 257
    color = stretch(pixels[..., :3], 0, 4095).astype(int)
    expected = (color * opacity + 255 * (255 - opacity) + 127) // 255
    np.testing.assert_array_equal(clear, expected)
    plain = (DEEP[..., :3] >> 4).astype(np.uint8)
    np.testing.assert_array_equal(prepare(save_png(plain[..., ::-1]), {"high": 99}), plain)


def test_what_is_wholly_transparent_is_not_counted():
    alpha = np.ones((6, 5), np.uint16)
    alpha[2:] = 0
    levels = CountedLevels()
    for data in (save_png(np.dstack([DEEP[..., :3], alpha])), save_png(DEEP[..., 0])):
        prepare_image(data, PrepareOptions(), levels)
    seen = np.concatenate([DEEP[:2, :, :3].ravel(), DEEP[..., 0].ravel()])
    np.testing.assert_array_equal(levels.counts, np.bincount(seen, minlength=65536))


@pytest.mark.parametrize("dtype", ["uint16", "float32", "int16"])
def test_arrays_of_which_it_is_not_said_what_they_become_are_refused(dtype):
    data = zoo.save_array(DEEP[..., 0].astype(dtype))
    with pytest.raises(BadImage, match=f"array of {dtype}, but ingest.prepare.dtype=uint8"):
        prepare(data, "shift" if dtype == "uint16" else {"high": 4095})


@pytest.mark.parametrize(
    "asked", [("0.1%", "99.9%"), ("0%", "100%"), ("25%", "75%"), ("33.3%", "66.6%"), (5, "50%")]
)
@pytest.mark.parametrize("size", [1, 7, 997, 50_001])
def test_percents_are_found_as_numpy_finds_them(asked, size):
    values = np.random.default_rng(size).integers(100, 4000, size, np.uint16)
    options = DepthOptions(low=asked[0], high=asked[1])
    found = find_levels(np.bincount(values, minlength=65536), options).found
    low, high = (
        each
        if isinstance(each, int)
        else int(np.percentile(values, float(each[:-1]), method="inverted_cdf"))
        for each in asked
    )
    assert found == (low, max(high, low + 1))


@pytest.mark.parametrize(
    ("values", "asked", "found"),
    [
        ([7], {"high": "100%"}, (0, 7)),
        ([0], {"high": "100%"}, (0, 1)),
        ([65535], {"low": "1%", "high": "99%"}, (65534, 65535)),
        ([900], {"low": "0%", "high": "100%"}, (900, 901)),
        ([], {"low": "1%", "high": "99%"}, (0, 65535)),
        ([3, 65535], {"high": "100%"}, (0, 65535)),
    ],
)
def test_values_that_are_all_one_or_none_have_a_range_too(values, asked, found):
    counts = np.bincount(np.array(values, int), minlength=65536)
    assert find_levels(counts, DepthOptions(**asked)).found == found


def test_a_range_on_the_wrong_side_of_the_values_is_refused():
    counts = np.bincount([10, 20], minlength=65536)
    with pytest.raises(UserError, match=r"depth=\{low: 64, high: 100%\} comes to 64 and 20 in"):
        find_levels(counts, DepthOptions(low=64, high="100%"))


def test_words_stand_for_numbers():
    assert DepthOptions.model_validate("shift") == DepthOptions(low=0, high=65535)
    assert DepthOptions.model_validate("maximum") == DepthOptions(low=0, high="100%")
    assert "depth" not in PrepareOptions().model_dump()
