import cv2
import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.images.encode import choose_blur, resize
from tests.drawings import draw_smooth

pytestmark = pytest.mark.unit


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
