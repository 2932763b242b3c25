import io

import numpy as np
import pytest
from PIL import Image

from image_pipeline.browse.pictures import decode_stored, make_png, make_thumbnail
from tests.drawings import draw
from tests.shards import draw_image, make_example

pytestmark = pytest.mark.unit


def read(picture):
    return np.asarray(Image.open(io.BytesIO(picture.data)))


def test_a_png_has_exactly_the_pixels():
    pixels = draw(1, 30, 40)
    picture = make_png(pixels)
    assert picture.kind == "image/png" and np.array_equal(read(picture), pixels)
    assert np.array_equal(read(make_png(pixels[..., :1])), pixels[..., 0])


def test_a_small_picture_is_its_own_thumbnail():
    pixels = draw(1, 224, 100)
    assert make_thumbnail(pixels) == make_png(pixels)


@pytest.mark.parametrize(("shape", "size"), [((448, 900, 3), (112, 224)), ((900, 2, 1), (224, 1))])
def test_a_large_picture_is_shrunk(shape, size):
    picture = make_thumbnail(np.full(shape, 77, np.uint8))
    assert picture.kind == "image/jpeg"
    assert read(picture).shape[:2] == size and np.all(abs(read(picture).astype(int) - 77) <= 2)


@pytest.mark.parametrize("image_format", ["png", "raw"])
def test_a_stored_image_is_decoded(image_format):
    image = draw_image(3)
    record = make_example(image, image_format=image_format)
    assert np.array_equal(decode_stored(record), image)
