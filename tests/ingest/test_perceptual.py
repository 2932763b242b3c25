import cv2
import imagehash
import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.ingest.perceptual import hash_image
from tests.drawings import draw_smooth, encode_png

pytestmark = pytest.mark.unit


def _hash(pixels, **options):
    return hash_image(prepare_image(encode_png(pixels), PrepareOptions(**options)))


def _distance(first, second):
    return (first ^ second).bit_count()


@pytest.mark.parametrize("encoding", ["png", "raw", "jpeg"])
@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_the_hash_is_imagehashs_of_the_stored_pixels(encoding, color):
    pixels = draw_smooth(3)
    expected = int(str(imagehash.phash(Image.fromarray(pixels))), 16)
    assert _distance(_hash(pixels, encoding=encoding, color=color), expected) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_what_looks_alike_is_near_and_what_does_not_is_far(seed):
    pixels = draw_smooth(seed)
    hashed = _hash(pixels)
    smaller = cv2.resize(pixels, (96, 72), interpolation=cv2.INTER_AREA)
    brighter = np.clip(pixels.astype(int) + 12, 0, 255).astype(np.uint8)
    assert _distance(hashed, _hash(pixels, jpeg_quality=40)) <= 4
    assert _distance(hashed, _hash(smaller)) <= 4
    assert _distance(hashed, _hash(brighter)) <= 4
    assert _distance(hashed, _hash(pixels[:, ::-1])) > 8
    assert _distance(hashed, _hash(draw_smooth(seed + 100))) > 8


def test_blank_images_of_any_colour_look_alike():
    blank = [_hash(np.full((40, 60, 3), level, np.uint8)) for level in (7, 128, 255)]
    assert len(set(blank)) == 1
