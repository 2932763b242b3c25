import numpy as np
import pytest

from image_pipeline.show.shown_values import show_values

pytestmark = pytest.mark.unit


def test_8_bit_gray_and_rgb_are_shown_as_they_are():
    for channels in (1, 3):
        pixels = np.arange(12 * channels, dtype=np.uint8).reshape(3, 4, channels)
        np.testing.assert_array_equal(show_values(pixels), pixels)


def test_others_go_from_black_to_white():
    pixels = np.array([[[-3.0], [1.0], [5.0]]], np.float16)
    assert show_values(pixels).tolist() == [[[0], [128], [255]]]
    assert show_values(pixels).dtype == np.uint8


def test_the_first_three_channels_are_shown_or_the_first():
    deep = np.arange(10, dtype=np.uint16).reshape(1, 2, 5)
    assert show_values(deep).tolist() == [[[0, 36, 73], [182, 219, 255]]]
    assert show_values(deep[..., :2]).tolist() == [[[0], [255]]]
    assert show_values(deep.astype(np.uint8)).tolist() == [[[0, 1, 2], [5, 6, 7]]]


def test_one_value_everywhere_is_black():
    assert not show_values(np.full((2, 2, 1), 7.5, np.float32)).any()
