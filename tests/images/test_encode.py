import cv2
import numpy as np
import pytest

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.encode import encode
from image_pipeline.components.views.jpeg_tiles import cut_part
from tests.drawings import draw_noisy

pytestmark = pytest.mark.unit


def draw(channels, height=150, width=200):
    pixels = draw_noisy(height, width, channels)
    return pixels[..., 0] if channels == 1 else pixels


@pytest.mark.parametrize("channels", [1, 3])
def test_markers_change_no_pixel(channels):
    pixels = draw(channels)
    data = encode(pixels, "jpeg", 90)
    bgr = pixels[..., ::-1] if channels == 3 else pixels
    plain = cv2.imencode(".jpg", np.ascontiguousarray(bgr), [cv2.IMWRITE_JPEG_QUALITY, 90])[1]
    found, expected = (
        cv2.imdecode(each, cv2.IMREAD_UNCHANGED) for each in (np.frombuffer(data, np.uint8), plain)
    )
    np.testing.assert_array_equal(found, expected)
    assert len(plain) < len(data) < 1.03 * len(plain)


@pytest.mark.parametrize("channels", [1, 3])
def test_large_jpegs_are_in_tiles(channels):
    assert cut_part(encode(draw(channels), "jpeg", 90), (150, 200), (0, 0, 20, 20)) is not None
    small = encode(draw(channels, 128, 128), "jpeg", 90)
    assert b"\xff\xdd" not in small[:700]


@pytest.mark.parametrize("channels", [1, 3])
def test_png_and_raw_lose_nothing(channels):
    pixels = draw(channels)
    assert encode(pixels, "raw", 90) == pixels.tobytes()
    decoded = cv2.imdecode(np.frombuffer(encode(pixels, "png", 90), np.uint8), -1)
    np.testing.assert_array_equal(decoded if channels == 1 else decoded[..., ::-1], pixels)


def test_quality_is_of_jpegs():
    assert len(encode(draw(3), "jpeg", 50)) < len(encode(draw(3), "jpeg", 90))
    assert encode(draw(3), "png", 50) == encode(draw(3), "png", 90)


def test_a_jpeg_has_sides_of_at_most_65500_px():
    with pytest.raises(BadImage, match=r"at most 65500 px, not 65501; resize it or store png"):
        encode(np.zeros((1, 65_501, 3), np.uint8), "jpeg", 90)


@pytest.mark.parametrize(
    ("size", "channels", "interval"),
    [
        ((256, 256), 3, 4),
        ((256, 384), 3, 4),
        ((256, 341), 3, 2),  # 22 blocks
        ((256, 400), 3, 5),
        ((341, 256), 3, 4),
        ((256, 368), 3, 23),  # A row.
        ((256, 256), 1, 8),
        ((256, 341), 1, 43),
        ((128, 128), 3, 0),
        ((129, 128), 3, 4),
        ((32, 32), 3, 0),
    ],
)
def test_tiles_have_about_64_pixels(size, channels, interval):
    data = encode(draw(channels, *size), "jpeg", 90)
    place = data.find(b"\xff\xdd\x00\x04", 0, 700) + 4
    assert (int.from_bytes(data[place : place + 2], "big") if place > 3 else 0) == interval
