import re

import pytest

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    NOT_AN_IMAGE,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)
from image_pipeline.components.images.header import Header, open_image, read_header, read_size
from tests.images import zoo

pytestmark = pytest.mark.unit


def read(name: str) -> Header:
    with open_image(zoo.ZOO[name].data) as image:
        return read_header(image, zoo.ZOO[name].data)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jpeg_gray", ("jpeg", 32, 48, 1, 1, False, ())),
        ("jpeg_orientation_6", ("jpeg", 48, 32, 3, 6, False, ())),
        ("jpeg_exif_garbage", ("jpeg", 32, 48, 3, 1, False, ("exif_broken",))),
        ("png_gray_alpha", ("png", 32, 48, 1, 1, True, ())),
        ("png_animated", ("png", 32, 48, 3, 1, True, ("frames:2",))),
        ("tiff_orientation_6", ("tiff", 48, 32, 3, 6, True, ())),
        ("tiff_jpeg", ("tiff", 32, 48, 3, 1, False, ())),
        ("tiff_gray_16_bit", ("tiff", 32, 48, 1, 1, True, ())),
        ("webp", ("webp", 32, 48, 3, 1, False, ())),
    ],
)
def test_the_header_is_the_file_s(name: str, expected: tuple):
    header = read(name)
    assert header == Header(*expected[:5], None, *expected[5:])


def test_a_colour_profile_is_kept():
    assert read("png_profile").icc is not None
    assert read("png").icc is None


def test_the_size_of_a_bomb_is_read_without_decoding():
    with open_image(zoo.ZOO["png_bomb"].data) as image:
        assert read_size(image) == (50_000, 50_000)


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        (b"a cat, s", NOT_AN_IMAGE, "no image starts with b'a cat, s'"),
        (zoo.ZOO["svg"].data, UNSUPPORTED, "SVG is not read; draw it at the size you need"),
        (zoo.ZOO["png_zero_width"].data, CORRUPT, "the header of this file is damaged"),
        (zoo.ZOO["tiff_cut_lzw"].data, TRUNCATED, "the TIFF ends at byte 2000, before its direc"),
        (b"MM\0*\0\0\0\x08" + bytes(8), UNSUPPORTED, "a TIFF that Pillow cannot open"),
        (zoo.save_jpeg()[:20], TRUNCATED, "the JPEG data ends at byte 20"),
    ],
    ids=["text", "svg", "png", "cut_tiff", "empty_tiff", "jpeg"],
)
def test_what_does_not_open_is_told_apart(data: bytes, reason: str, message: str):
    with pytest.raises(BadImage, match=re.escape(message)) as caught:
        open_image(data)
    assert caught.value.reason == reason
