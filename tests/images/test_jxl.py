import dataclasses

import imagecodecs
import numpy as np
import pytest

from image_pipeline.components.images.bad_image import CORRUPT, TRUNCATED, UNSUPPORTED, BadImage
from image_pipeline.components.images.jxl import open_jxl
from image_pipeline.components.images.options import CountedLevels, Levels
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from tests.images import zoo
from tests.images.extra_files import save_jxl

pytestmark = pytest.mark.unit

AS_IS = PrepareOptions(resize="none", encoding="raw")
ALPHA = np.dstack([zoo.PATTERN, zoo.GRAY])
DEEP = np.arange(32 * 48, dtype=np.uint16).reshape(32, 48)


def prepare(data: bytes, options: PrepareOptions = AS_IS) -> tuple[np.ndarray, tuple[str, ...]]:
    image = prepare_image(data, options)
    assert image.source_format == "jxl"
    pixels = np.frombuffer(image.encoded, "u2" if options.dtype == "uint16" else "u1")
    return pixels.reshape(image.height, image.width, image.channels), image.notes


@pytest.mark.parametrize(("height", "width"), [(8, 8), (256, 256), (1, 700), (90, 160), (64, 96)])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("lossless", [True, False])
def test_the_header_says_what_decoding_gives(height, width, channels, lossless):
    pixels = np.zeros((height, width, channels), np.uint8)
    data = save_jxl(pixels[:, :, 0] if channels == 1 else pixels, lossless=lossless)
    image = open_jxl(data)
    assert (image.height, image.width) == (height, width)
    assert (image.mode, image.bits) == (("L", "LA", "RGB", "RGBA")[channels - 1], 8)
    assert image.is_srgb and image.is_lossless == lossless
    assert image.read_samples()[0].shape[:2] == (height, width)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_packed_jpeg_is_turned_once_and_its_profile_is_applied(orientation):
    profile = zoo.swapped_profile()
    jpeg = zoo.save_jpeg(
        zoo.store_rotated(orientation), exif=zoo.make_exif(orientation), icc_profile=profile
    )
    pixels, notes = prepare(imagecodecs.jpegxl_encode_jpeg(jpeg))
    assert notes == ("icc",)
    # Half levels round otherwise in libjxl's own transform of blocks.
    assert np.abs(pixels.astype(int) - zoo.PATTERN[:, :, ::-1]).max() <= 3


@pytest.mark.parametrize("bits", [10, 12])
def test_more_bits_are_rounded_to_8_or_kept(bits):
    levels = DEEP % 2**bits
    data = save_jxl(levels, bitspersample=bits, photometric="gray")
    assert open_jxl(data).bits == bits
    raw, notes = prepare(data, AS_IS.model_copy(update={"dtype": "uint16", "color": "gray"}))
    assert np.array_equal(raw[:, :, 0], levels) and notes == ("icc_unused",)
    with pytest.raises(BadImage, match="of other colours than sRGB") as caught:
        prepare(data)  # The encoder calls what has more bits linear.
    assert caught.value.reason == UNSUPPORTED


@pytest.mark.parametrize("bits", [10, 12])
def test_values_of_more_bits_are_stretched_and_counted_as_of_other_files(bits):
    values = DEEP % 2**bits
    pixels = np.dstack([values, values, values, values // 2])
    image = open_jxl(save_jxl(pixels, bitspersample=bits, lossless=True))
    image = dataclasses.replace(image, is_srgb=True)  # The encoder calls it linear.
    color, alpha, notes = image.read_shown(Levels(7, 900))
    expected = np.floor((np.clip(values, 7, 900) - 7.0) * 255 / 893 + 0.5)
    assert np.array_equal(color, np.dstack([expected] * 3)) and notes == ("16bit", "alpha")
    own = np.floor(pixels * 255.0 / (2**bits - 1) + 0.5)
    assert np.array_equal(alpha, own[:, :, 3])
    assert np.array_equal(image.read_shown()[0], own[:, :, :3])
    levels = CountedLevels()
    image.read_shown(levels)
    seen = 3 * np.bincount(values[values > 1], minlength=65_536)
    assert np.array_equal(levels.counts, seen)


@pytest.mark.parametrize(
    ("data", "reason", "said"),
    [
        (b"\xff\x0a", TRUNCATED, "ends within its header"),
        (zoo.ZOO["jxl"].data[:4], TRUNCATED, "ends within its header"),
        (zoo.ZOO["jxl"].data[:20], TRUNCATED, "NEED_MORE_INPUT"),
        (imagecodecs.jpegxl_encode_jpeg(zoo.save_jpeg())[:-1], TRUNCATED, "ends at byte"),
        (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(4) + b"abcd", TRUNCATED, "ends within its header"),
        (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(3) + b"\7abcd", CORRUPT, "a box of the JPEG XL file"),
        (
            b"\0\0\0\x0cJXL \r\n\x87\n" + b"\0\0\0\x08free" * 10_001,
            UNSUPPORTED,
            "more than 10,000 boxes",
        ),
        (b"\xff\x0a" + b"\xff" * 60, CORRUPT, "the decoder gave up"),
    ],
)
def test_damaged_headers_are_refused(data, reason, said):
    with pytest.raises(BadImage, match=said) as caught:
        prepare_image(data, AS_IS)
    assert caught.value.reason == reason


def test_a_bomb_is_refused_by_its_header():
    """8 bytes that ask for 2**30 pixels a side."""
    size = 0 | 3 << 1 | (2**30 - 1) << 3
    number = 0x0AFF | (size | 1 << 33 | 1 << 36) << 16
    with pytest.raises(BadImage) as caught:
        prepare_image(number.to_bytes(40, "little"), AS_IS)
    assert caught.value.reason in ("too_many_pixels", "unsupported")
    assert "px" in caught.value.message


def test_alpha_of_any_level_is_laid_on_the_background():
    pixels, notes = prepare(save_jxl(ALPHA))
    opacity = zoo.GRAY[:, :, None].astype(float) / 255
    expected = np.rint(zoo.PATTERN * opacity + 255 * (1 - opacity))
    assert notes == ("alpha",) and np.array_equal(pixels, expected)
