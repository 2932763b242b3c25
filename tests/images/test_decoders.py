import io

import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.decoders import Pixels, read_pixels
from image_pipeline.components.images.header import open_image, read_header
from tests.images import zoo

pytestmark = pytest.mark.unit


def read(data: bytes, luma_only: bool = False) -> Pixels:
    with open_image(data) as image:
        return read_pixels(data, image, read_header(image, data).source_format, luma_only, 1)


@pytest.mark.parametrize("quality", [50, 95])
@pytest.mark.parametrize("settings", [{}, {"progressive": True}, {"restart_marker_blocks": 2}])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_jpeg_pixels_equal_pillows(quality: int, settings: dict, subsampling: int):
    source = zoo.NOISE[:61, :77].copy()
    data = zoo.save_jpeg(source, quality=quality, subsampling=subsampling, **settings)
    np.testing.assert_array_equal(read(data).color, np.asarray(Image.open(io.BytesIO(data))))


def test_gray_of_a_colour_jpeg_is_its_luma():
    data = zoo.save_jpeg(zoo.PATTERN)
    luma = np.asarray(Image.open(io.BytesIO(data)).convert("YCbCr"))[:, :, 0]
    color = read(data, luma_only=True).color
    assert color.shape == luma.shape
    assert np.abs(color.astype(int) - luma).max() <= 1


@pytest.mark.parametrize("name", ["png_alpha", "png_gray_alpha", "webp_lossless_alpha"])
def test_alpha_is_apart_from_the_colours(name: str):
    pixels = read(zoo.ZOO[name].data)
    assert pixels.alpha is not None
    assert pixels.alpha.shape == pixels.color.shape[:2]
    assert "alpha" in pixels.notes


def test_sixteen_bits_are_rounded_to_eight_and_both_ends_are_exact():
    levels = np.array([[0, 128, 129, 65_535]], np.uint16)
    pixels = read(zoo.save(Image.fromarray(levels), "PNG"))
    assert pixels.color.tolist() == [[0, 0, 1, 255]]
    assert pixels.notes == ("16bit",)


def test_cmyk_stays_cmyk():
    pixels = read(zoo.ZOO["jpeg_cmyk"].data)
    assert (pixels.color.shape, pixels.notes) == ((32, 48, 4), ("cmyk",))


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
