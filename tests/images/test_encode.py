import cv2
import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.prepare import choose_blur, encode, resize
from image_pipeline.components.views.jpeg_tiles import cut_part
from tests.drawings import draw_noisy, draw_smooth

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


@pytest.mark.parametrize("height", [375, 500, 900, 2100])  # 1.46 to 8.2 times the 256 wanted
def test_shrinking_is_nearer_to_pillow_than_opencv_s_area(height):
    grain = np.random.default_rng(5).integers(0, 40, (height, height * 4 // 3, 3), np.uint8)
    pixels = draw_smooth(3, height, height * 4 // 3) // 2 + grain
    pillow = np.asarray(Image.fromarray(pixels).resize((341, 256), Image.Resampling.BILINEAR))
    area = cv2.resize(pixels, (341, 256), interpolation=cv2.INTER_AREA)
    shrunk = resize(pixels, (256, 341)).astype(int)
    assert np.abs(shrunk - pillow).mean() < np.abs(area.astype(int) - pillow).mean()


@pytest.mark.parametrize("factor", [1.05, 1.3, 1.46, 1.7, 2.0, 3.5, 8.0])
def test_the_blur_has_the_variance_that_an_antialiased_resize_wants(factor):
    taps, sigma = choose_blur(factor)
    weights = cv2.getGaussianKernel(taps, sigma)[:, 0]
    variance = (weights * (np.arange(taps) - taps // 2) ** 2).sum()
    assert variance == pytest.approx(1.2 * (factor**2 - 1) / 6, rel=0.15)  # cut off at two sigmas


def test_a_side_that_keeps_its_length_is_not_blurred():
    rows = np.repeat(np.random.default_rng(1).integers(0, 255, (40, 1, 3), np.uint8), 120, axis=1)
    np.testing.assert_array_equal(resize(rows, (40, 40)), rows[:, :40])
    assert resize(rows, (40, 120)) is rows


@pytest.mark.parametrize("target", [(100, 150), (3, 4), (1, 1), (300, 5), (260, 500), (400, 3)])
def test_one_colour_stays_that_colour(target):
    pixels = np.full((270, 400, 3), (7, 130, 251), np.uint8)
    np.testing.assert_array_equal(
        resize(pixels, target), np.broadcast_to(pixels[0, 0], (*target, 3))
    )


def test_gray_and_cmyk_are_resized_channel_by_channel():
    pixels = draw_smooth(2, 90, 120)
    cmyk = np.dstack([pixels, pixels[:, :, :1]])
    shrunk = resize(cmyk, (50, 70))
    for channel in range(4):
        np.testing.assert_array_equal(
            shrunk[:, :, channel], resize(np.ascontiguousarray(cmyk[:, :, channel]), (50, 70))
        )
