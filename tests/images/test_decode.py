"""JPEGs that are decoded at a fraction of their size, because they will be shrunk anyway."""

import io
import struct

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from image_pipeline.components.images.decode import DecodedImage, decode_image
from image_pipeline.components.images.prepare import BadImage, PrepareOptions, prepare_image
from tests.drawings import draw_smooth
from tests.images import zoo

pytestmark = pytest.mark.unit

WIDE = draw_smooth(1, 800, 1200)
RAW = PrepareOptions(size_px=100, encoding="raw")


def decode(data, target_side, gray=False):
    color = "gray" if gray else "rgb"
    return decode_image(data, PrepareOptions(size_px=target_side, color=color, max_pixels=2**30))


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize(
    ("target_side", "shape"),
    [
        (800, (800, 1200)),
        (267, (800, 1200)),
        (266, (400, 600)),
        (134, (400, 600)),
        (133, (200, 300)),
        (67, (200, 300)),
        (20, (100, 150)),
    ],
)
def test_one_and_a_half_times_the_target_s_sides_are_kept(target_side, shape, gray):
    decoded = decode(zoo.save_jpeg(WIDE), target_side, gray)
    assert decoded.pixels.shape[:2] == shape
    assert (decoded.header.height, decoded.header.width) == (800, 1200)


def test_sides_that_are_no_multiple_are_decoded_less_reduced():
    assert decode(zoo.save_jpeg(WIDE[:796, :]), 20).pixels.shape == (199, 300, 3)
    assert decode(zoo.save_jpeg(WIDE[:799, :]), 20).pixels.shape == (799, 1200, 3)


@pytest.mark.parametrize("reduced_to", [400, 200, 100])
def test_the_pixels_are_the_averages_of_the_whole_image(reduced_to):
    data = zoo.save_jpeg(WIDE, quality=95)
    pixels = decode(data, reduced_to * 3 // 5).pixels
    whole = np.asarray(Image.open(io.BytesIO(data)))
    expected = cv2.resize(whole, pixels.shape[1::-1], interpolation=cv2.INTER_AREA)
    assert pixels.shape[0] == reduced_to
    assert np.abs(pixels.astype(int) - expected).mean() < 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_reduced_images_are_turned_like_whole_ones(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = zoo.save_jpeg(WIDE, exif=exif.tobytes())
    with Image.open(io.BytesIO(data)) as image:
        upright = ImageOps.exif_transpose(image)
    expected = prepare_image(zoo.save(upright, "PNG"), RAW)  # PNGs are always decoded whole.
    turned = prepare_image(data, RAW)
    assert (turned.height, turned.width) == (expected.height, expected.width)
    difference = _pixels(turned) - _pixels(expected)
    assert np.abs(difference).mean() < 1


def _pixels(image):
    return np.frombuffer(image.encoded, np.uint8).astype(int)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_missing_data_is_noticed_at_every_reduction(share):
    data = zoo.save_jpeg(WIDE, quality=95)
    for target_side in (500, 200, 100, 50):
        with pytest.raises(BadImage):
            decode(data[: int(len(data) * share)] + b"\xff\xd9", target_side)


def test_a_row_that_no_decoder_can_hold_is_no_lack_of_memory():
    """Of such a row Pillow raises MemoryError, however much memory there is."""
    header = struct.pack("<2sIHHI", b"BM", 118, 0, 0, 54)
    info = struct.pack("<IiiHHIIiiII", 40, 100_000_000, 1, 1, 24, 0, 0, 0, 0, 0, 0)
    with pytest.raises(BadImage, match="unsupported: 100000000x1 px, but no decoder reads"):
        prepare_image(header + info + bytes(64), PrepareOptions())


def read(data: bytes, color: str = "rgb") -> DecodedImage:
    return decode_image(data, PrepareOptions(resize="none", color=color))


@pytest.mark.parametrize("quality", [50, 95])
@pytest.mark.parametrize("settings", [{}, {"progressive": True}, {"restart_marker_blocks": 2}])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_jpeg_pixels_equal_pillows(quality: int, settings: dict, subsampling: int):
    source = zoo.NOISE[:61, :77].copy()
    data = zoo.save_jpeg(source, quality=quality, subsampling=subsampling, **settings)
    np.testing.assert_array_equal(read(data).pixels, np.asarray(Image.open(io.BytesIO(data))))


def test_gray_of_a_colour_jpeg_is_its_luma():
    data = zoo.save_jpeg(zoo.PATTERN)
    luma = np.asarray(Image.open(io.BytesIO(data)).convert("YCbCr"))[:, :, 0]
    color = read(data, color="gray").pixels
    assert color.shape == luma.shape
    assert np.abs(color.astype(int) - luma).max() <= 1


def test_sixteen_bits_are_rounded_to_eight_and_both_ends_are_exact():
    levels = np.array([[0, 128, 129, 65_535]], np.uint16)
    pixels = read(zoo.save(Image.fromarray(levels), "PNG"))
    assert pixels.pixels.tolist() == [[0, 0, 1, 255]]
    assert pixels.notes == ("16bit",)


def test_cmyk_stays_cmyk():
    pixels = read(zoo.ZOO["jpeg_cmyk"].data)
    assert (pixels.pixels.shape, pixels.notes) == ((32, 48, 4), ("cmyk",))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("png_no_end", "without an end chunk"),
        ("png_bad_checksum", "a checksum of its pixels .IDAT. is wrong; copy the file again"),
        ("png_too_few_rows", "the compressed data is damaged or ends before the last pixel"),
        ("tiff_float", "photometric 1 and compression 1; convert it to 8 or 16 bit"),
    ],
)
def test_pixels_that_cannot_be_read_are_refused(name: str, message: str):
    with pytest.raises(BadImage, match=message):
        read(zoo.ZOO[name].data)
