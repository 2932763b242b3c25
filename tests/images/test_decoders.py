import io

import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.decode import DecodedImage, decode_image
from image_pipeline.components.images.options import PrepareOptions
from tests.images import zoo

pytestmark = pytest.mark.unit


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
        ("png_bad_checksum", "the compressed data is damaged"),
        ("tiff_float", "photometric 1 and compression 1; convert it to 8 or 16 bit"),
    ],
)
def test_pixels_that_cannot_be_read_are_refused(name: str, message: str):
    with pytest.raises(BadImage, match=message):
        read(zoo.ZOO[name].data)
