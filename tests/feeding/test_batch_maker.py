import threading

import numpy as np
import pytest

from image_pipeline.components.feeding.batch_maker import BatchMaker
from image_pipeline.components.views.fast import crop_and_resize, take_eval_view
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=6, width_px=7)


def make_images(count, windows, threads):
    return BatchMaker(VIEW, threads).make(lambda number: draw(number, 12, 15), count, windows)


def draw_windows(count):
    corners = np.random.default_rng(0).integers(0, 5, (count, 2))
    return np.concatenate([corners, np.full((count, 2), 7)], axis=1).astype(np.int32)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 37])
@pytest.mark.parametrize("threads", [1, 4])
def test_each_image_is_at_its_place_whatever_the_number_of_threads(count, threads):
    windows = draw_windows(count)
    expected = np.empty((count, 6, 7, 3), np.uint8)
    for number in range(count):
        crop_and_resize(draw(number, 12, 15), windows[number], expected[number])
    np.testing.assert_array_equal(make_images(count, windows, threads), expected)


def test_without_windows_views_are_those_of_evaluation():
    expected = np.empty((9, 6, 7, 3), np.uint8)
    for number in range(9):
        take_eval_view(draw(number, 12, 15), VIEW, expected[number])
    np.testing.assert_array_equal(make_images(9, None, 2), expected)


def test_several_threads_decode_at_once():
    both = threading.Barrier(2, timeout=120)  # Which one thread alone would never pass.

    def load(number):
        if number % 8 == 0:
            both.wait()
        return draw(number, 12, 15)

    assert len(BatchMaker(VIEW, 2).make(load, 16, None)) == 16


@pytest.mark.parametrize("threads", [1, 3])
def test_an_image_that_cannot_be_loaded_ends_the_batch(threads):
    def load(number):
        if number == 20:
            raise ValueError("image 20 is damaged")
        return draw(number, 12, 15)

    with pytest.raises(ValueError, match="image 20 is damaged"):
        BatchMaker(VIEW, threads).make(load, 24, None)


@pytest.mark.parametrize("count", [1, 3])
def test_tensorflow_can_take_a_batch_over_without_a_copy(count):
    batch = BatchMaker(VIEW).empty(count)
    assert batch.ctypes.data % 64 == 0 and batch.flags.c_contiguous
    assert batch.shape == (count, 6, 7, 3)
