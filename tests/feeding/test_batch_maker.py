import threading

import numpy as np
import pytest

from image_pipeline.components.feeding.images import BatchMaker
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=6, width_px=7)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 37])
@pytest.mark.parametrize("threads", [1, 4])
def test_each_image_is_at_its_place_whatever_the_number_of_threads(count, threads):
    def fill(number, out):
        out[...] = draw(number, 6, 7)

    expected = [draw(number, 6, 7) for number in range(count)]
    found = BatchMaker(VIEW, threads).make(fill, count)
    np.testing.assert_array_equal(found, np.array(expected, np.uint8).reshape(count, 6, 7, 3))


def test_several_threads_decode_at_once():
    both = threading.Barrier(2, timeout=120)  # Which one thread alone would never pass.

    def fill(number, out):
        if number % 8 == 0:
            both.wait()

    assert len(BatchMaker(VIEW, 2).make(fill, 16)) == 16


@pytest.mark.parametrize("threads", [1, 3])
def test_an_image_that_cannot_be_made_ends_the_batch(threads):
    def fill(number, out):
        if number == 20:
            raise ValueError("image 20 is damaged")

    with pytest.raises(ValueError, match="image 20 is damaged"):
        BatchMaker(VIEW, threads).make(fill, 24)


@pytest.mark.parametrize("count", [1, 3])
def test_tensorflow_can_take_a_batch_over_without_a_copy(count):
    batch = BatchMaker(VIEW).empty(count)
    assert batch.ctypes.data % 64 == 0 and batch.flags.c_contiguous
    assert batch.shape == (count, 6, 7, 3)
