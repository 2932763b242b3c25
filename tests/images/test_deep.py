import io
import struct
import zlib

import cv2
import numpy as np
import pytest
import tifffile

from image_pipeline.components.images.bad_image import CORRUPT, UNSUPPORTED, BadImage
from image_pipeline.components.images.prepare import (
    PreparedImage,
    PrepareOptions,
    prepare_image,
    resize,
)
from tests.images import zoo

pytestmark = pytest.mark.unit

RANDOM = np.random.default_rng(4)
DEEP_RGB = RANDOM.integers(0, 65536, (6, 9, 3), np.uint16)
DEEP_GRAY = DEEP_RGB[:, :, 0].copy()
FLOATS = RANDOM.normal(0, 50, (6, 9)).astype(np.float32)


def prepare(data: bytes, **options) -> PreparedImage:
    return prepare_image(
        data, PrepareOptions(**{"resize": "none", "encoding": "raw", **options})
    )  # fmt: skip


def values_of(image: PreparedImage) -> np.ndarray:
    dtype = image.format.partition("_")[2] or "uint8"
    shape = image.height, image.width, image.channels
    return np.frombuffer(image.encoded, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def save_png(pixels: np.ndarray) -> bytes:
    code = {3: cv2.COLOR_RGB2BGR, 4: cv2.COLOR_RGBA2BGRA}
    bgr = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, code[pixels.shape[2]])
    return cv2.imencode(".png", bgr)[1].tobytes()


def write_gray_alpha(pixels: np.ndarray) -> bytes:
    """A PNG of gray and alpha with 16 bits each, which OpenCV does not write."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, 4, 0, 0, 0)
    named = {b"IHDR": header, b"IDAT": zlib.compress(lines), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(zoo.chunk(*each) for each in named.items())


def save_tiff(pixels: np.ndarray, **settings) -> bytes:
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, **settings)
    return file.getvalue()


RGBA = np.dstack([DEEP_RGB, DEEP_GRAY])
GRAY_ALPHA = RGBA[:, :, [0, 3]]
WHOLE = {
    "png gray": (save_png(DEEP_GRAY), "uint16", 1, DEEP_GRAY),
    "png RGB": (save_png(DEEP_RGB), "uint16", 3, DEEP_RGB),
    "png RGBA": (save_png(RGBA), "uint16", 4, RGBA),
    "png 8-bit RGBA": (save_png((RGBA >> 8).astype(np.uint8)), "uint8", 4, RGBA >> 8),
    "png gray and alpha": (write_gray_alpha(GRAY_ALPHA), "uint16", 2, GRAY_ALPHA),
    "png 8-bit gray and alpha": (
        zoo.save((GRAY_ALPHA >> 8).astype(np.uint8), "PNG"),
        *("uint8", 2, GRAY_ALPHA >> 8),
    ),
    "tiff gray": (save_tiff(DEEP_GRAY), "uint16", 1, DEEP_GRAY),
    "tiff RGB": (save_tiff(DEEP_RGB, photometric="rgb"), "uint16", 3, DEEP_RGB),
    "tiff of four": (
        save_tiff(RGBA, photometric="rgb", extrasamples=["unspecified"]),
        *("uint16", 4, RGBA),
    ),
    "tiff of four, 8-bit": (
        save_tiff((RGBA >> 8).astype(np.uint8), photometric="rgb", extrasamples=["unspecified"]),
        *("uint8", 4, RGBA >> 8),
    ),
    "tiff float32": (save_tiff(FLOATS), "float32", 1, FLOATS),
    "tiff float32 deflated": (save_tiff(FLOATS, compression="zlib"), "float32", 1, FLOATS),
    "tiff int16": (save_tiff(FLOATS.astype(np.int16)), "float32", 1, FLOATS.astype(np.int16)),
    "npy float16": (zoo.save_array(FLOATS.astype("f2")), "float16", 1, FLOATS.astype("f2")),
    "npy big-endian": (zoo.save_array(FLOATS.astype(">f4")), "float32", 1, FLOATS),
    "npy float64": (zoo.save_array(FLOATS.astype("f8") / 3), "float32", 1, FLOATS / np.float64(3)),
    "npy int8": (zoo.save_array(FLOATS.astype("i1")), "float32", 1, FLOATS.astype("i1")),
    "npy of seven": (zoo.save_array(np.dstack([RGBA, DEEP_RGB])), "uint16", 7, None),
    "jpeg": (zoo.ZOO["jpeg"].data, "uint8", 3, None),
}


@pytest.mark.parametrize("name", WHOLE)
def test_every_value_stays(name):
    data, dtype, channels, expected = WHOLE[name]
    if expected is None:
        expected = np.dstack([RGBA, DEEP_RGB])
        if name == "jpeg":
            expected = values_of(prepare(data))
    image = prepare(data, dtype=dtype, channels=channels)
    assert image.format == ("raw" if dtype == "uint8" else f"raw_{dtype}")
    expected = expected.reshape(image.height, image.width, channels).astype(dtype)
    np.testing.assert_array_equal(values_of(image), expected)
    assert image.notes == (("float64",) if name == "npy float64" else ())


def test_gray_becomes_rgb_and_rgb_gray_where_no_number_of_channels_is_asked_for():
    repeated = prepare(save_png(DEEP_GRAY), dtype="uint16")
    assert (repeated.channels, repeated.notes) == (3, ("gray",))
    assert prepare(save_png(DEEP_GRAY), dtype="uint16", color="gray").notes == ()
    np.testing.assert_array_equal(values_of(repeated), np.dstack([DEEP_GRAY] * 3))
    merged = prepare(save_png(DEEP_RGB), dtype="uint16", color="gray")
    assert (merged.channels, merged.notes) == (1, ("color",))
    luma = values_of(merged)[..., 0]
    np.testing.assert_allclose(luma, DEEP_RGB @ [0.299, 0.587, 0.114], atol=2)
    half = values_of(prepare(zoo.save_array(FLOATS.astype("f2")), dtype="float16"))
    np.testing.assert_array_equal(half, np.dstack([FLOATS.astype("f2")] * 3))


def test_transparent_pixels_of_16_bits_are_laid_on_the_background():
    image = prepare(save_png(RGBA), dtype="uint16", alpha_background=(255, 0, 51))
    opacity = DEEP_GRAY[:, :, None] / 65535
    expected = DEEP_RGB * opacity + np.array([65535, 0, 13107]) * (1 - opacity)
    np.testing.assert_allclose(values_of(image), expected, atol=0.5001)
    assert image.notes == ("alpha",)


def test_an_orientation_is_applied():
    turned = cv2.imencode(".tiff", DEEP_RGB[:, :, ::-1])[1].tobytes()
    np.testing.assert_array_equal(values_of(prepare(turned, dtype="uint16")), DEEP_RGB)
    png = zoo.ZOO["png_late_orientation_6"]
    np.testing.assert_array_equal(values_of(prepare(png.data, channels=3)), png.pixels)


@pytest.mark.parametrize(
    ("data", "options", "reason", "message"),
    [
        (
            *(zoo.ZOO["jpeg"].data, {"dtype": "uint16"}, UNSUPPORTED),
            "its values are uint8, but ingest.prepare.dtype=uint16; store such images by "
            "themselves, with ingest.prepare.dtype=uint8",
        ),
        (
            *(zoo.save_array(FLOATS.astype("f8")), {"dtype": "float16"}, UNSUPPORTED),
            "its values are float64, but ingest.prepare.dtype=float16; "
            "ingest.prepare.dtype=float32 reads them",
        ),
        (
            *(zoo.save_array(FLOATS.astype("i8")), {"dtype": "uint16"}, UNSUPPORTED),
            "its values are int64, but ingest.prepare.dtype=uint16; save it as one of uint8,",
        ),
        (
            *(zoo.save_array(RGBA), {"dtype": "uint16"}, UNSUPPORTED),
            "it has 4 channels, which are neither gray nor RGB; ingest.prepare.channels=4 stores",
        ),
        (
            *(zoo.save_array(RGBA), {"dtype": "uint16", "channels": 5}, UNSUPPORTED),
            "it has 4 channels, but ingest.prepare.channels=5",
        ),
        (
            *(zoo.save_array(np.where(FLOATS > 60, np.nan, FLOATS)), {"dtype": "float32"}, CORRUPT),
            "values are NaN, infinite or too large for float32; replace them, for example by",
        ),
        (
            *(zoo.save_array(np.full((2, 2), 1e39)), {"dtype": "float32"}, CORRUPT),
            "4 of 4 values are NaN, infinite or too large for float32",
        ),
        (
            *(zoo.save_array(FLOATS), {}, UNSUPPORTED),
            "an array of float32, but ingest.prepare.dtype=uint8; uint16, float16 and float32",
        ),
        (
            *(zoo.save_array((RGBA >> 8).astype(np.uint8)), {}, UNSUPPORTED),
            "ingest.prepare.channels=4 stores others as they are",
        ),
        (zoo.save_array(DEEP_RGB), {"dtype": "uint16", "max_pixels": 53}, "too_many_pixels", "9x6"),
        (zoo.save_array(DEEP_RGB), {"dtype": "uint16", "min_side_px": 7}, "too_small", "9x6"),
        (zoo.save_array(DEEP_RGB), {"dtype": "uint16", "max_file_bytes": 99}, "too_large_file", ""),
        (
            save_tiff(FLOATS, photometric="miniswhite"),
            *({"dtype": "float32"}, UNSUPPORTED, "TIFF of (32,) bits, sample format [3]"),
        ),
    ],
)
def test_an_image_that_does_not_fit_says_what_does(data, options, reason, message):
    with pytest.raises(BadImage) as caught:
        prepare(data, **options)
    assert caught.value.reason == reason
    assert message in caught.value.message


def test_a_profile_is_not_applied():
    assert prepare(zoo.ZOO["png_profile"].data, channels=3).notes == ("icc_unused",)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float16"])
@pytest.mark.parametrize("channels", [1, 3, 4, 9])
@pytest.mark.parametrize("target", [(5, 7), (30, 20), (12, 40)])
def test_each_channel_is_resized_as_if_alone(dtype, channels, target):
    pixels = RANDOM.integers(0, 250, (24, 32, channels)).astype(dtype)
    resized = resize(pixels, target)
    assert (resized.dtype, resized.shape) == (pixels.dtype, (*target, channels))
    single = np.float32 if dtype == "float16" else dtype
    for number in range(channels):
        alone = resize(np.ascontiguousarray(pixels[:, :, number], single), target)
        # Of floats OpenCV rounds the last bit by how many channels there are.
        least = 1e-3 if dtype == "float16" else 1e-6 if dtype == "float32" else 0
        np.testing.assert_allclose(resized[:, :, number], alone.astype(dtype), rtol=least)


def test_resizing_keeps_what_is_of_one_value():
    for dtype, value in (("uint16", 65535), ("float16", 65504), ("float32", -3e30)):
        pixels = np.full((20, 30, 2), value, dtype)
        for target in ((7, 11), (50, 40)):
            np.testing.assert_allclose(resize(pixels, target), pixels[0, 0, 0], rtol=1e-6)


def test_what_is_not_set_is_not_written_down():
    """The options are in manifests, and in the names of what an interrupted run has done."""
    assert not {"dtype", "channels"} & PrepareOptions().model_dump().keys()
    deep = PrepareOptions(dtype="uint16", channels=2, encoding="raw")
    assert PrepareOptions.model_validate_json(deep.model_dump_json()) == deep
