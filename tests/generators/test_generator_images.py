"""Pillow's images, and what gives an array, become files that ingest reads as the images' own."""

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from image_pipeline.components.generators.generator_images import (
    as_array,
    is_picture,
    write_array,
    write_picture,
)
from image_pipeline.components.generators.generator_worker import WrongItem
from image_pipeline.components.images.decode import decode_image
from tests.drawings import draw

pytestmark = pytest.mark.unit


def _decode(data):
    limits = {"min_side_px": 1, "max_pixels": 10**6, "max_file_bytes": 10**6}
    return decode_image(data, gray=False, alpha_background=(9, 9, 9), **limits)


def _write(picture):
    return b"".join(write_picture("image", picture))


class _Tensor:
    """What other libraries' arrays have in common."""

    def __init__(self, value):
        self._value = value

    def __array__(self, dtype=None, copy=None):
        if isinstance(self._value, Exception):
            raise self._value
        return np.asarray(self._value, dtype)


def test_what_gives_an_array_is_one():
    array = as_array("a", _Tensor(draw(1)))
    np.testing.assert_array_equal(array, draw(1))
    assert as_array("a", _Tensor(np.array(b"cat", object))) == b"cat"
    assert as_array("a", "cat") == "cat" and as_array("a", np.ndarray) is np.ndarray
    with pytest.raises(WrongItem, match=r"'a' gives no array \(RuntimeError: it requires grad"):
        as_array("a", _Tensor(RuntimeError("it requires grad")))


def test_plain_pixels_become_arrays():
    for mode, dtype in (("RGB", "u1"), ("L", "u1"), ("F", "f4"), ("I", "i4"), ("I;16", "u2")):
        picture = Image.fromarray(draw(1)).convert("L").convert(mode)
        picture = Image.fromarray(draw(1)) if mode == "RGB" else picture
        data = _write(picture)
        loaded = np.load(io.BytesIO(data))
        assert loaded.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(loaded, np.asarray(picture))


@pytest.mark.parametrize("mode", ["P", "LA", "RGBA", "1"])
def test_palettes_and_alpha_mean_what_they_mean_in_a_file(mode):
    picture = Image.fromarray(draw(1)).convert(mode)
    if mode in ("LA", "RGBA"):
        picture.putalpha(Image.fromarray(draw(2)[..., 0]))
    file = io.BytesIO()
    picture.save(file, "PNG")
    expected = _decode(file.getvalue()).pixels
    np.testing.assert_array_equal(_decode(_write(picture)).pixels, expected)
    assert mode != "P" or len(np.unique(expected)) > 2


def test_indices_of_a_palette_are_kept():
    picture = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3)).convert("P")
    picture.putpalette(bytes(range(255, 237, -1)))
    with Image.open(io.BytesIO(_write(picture))) as opened:
        assert opened.mode == "P" and np.asarray(opened).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_opened_file_gives_what_the_file_does(tmp_path):
    exif, known = Image.Exif(), PngImagePlugin.PngInfo()
    exif[0x0112] = 6
    known.add(b"tRNS", bytes.fromhex("000100020003"))
    pixels = draw(3)
    pixels[0, 0] = 1, 2, 3
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    Image.fromarray(pixels).save(tmp_path / "b.png", pnginfo=known)
    Image.fromarray(pixels).save(tmp_path / "c.png", icc_profile=b"profile")
    for path in sorted(tmp_path.iterdir()):
        expected = _decode(path.read_bytes())
        with Image.open(path) as picture:
            found = _decode(_write(picture))
        np.testing.assert_array_equal(found.pixels, expected.pixels)
        assert found.icc == expected.icc
    assert _decode((tmp_path / "a.png").read_bytes()).pixels.shape == (10, 8, 3)


def test_what_is_no_exact_image_is_refused(tmp_path):
    with pytest.raises(WrongItem, match=r"'a' has Pillow's mode CMYK; yield it as \.convert"):
        write_picture("a", Image.fromarray(draw(1)).convert("CMYK"))
    Image.fromarray(draw(1)).save(tmp_path / "a.bmp")
    (tmp_path / "a.bmp").write_bytes((tmp_path / "a.bmp").read_bytes()[:-20])
    with (
        Image.open(tmp_path / "a.bmp") as picture,
        pytest.raises(WrongItem, match=r"'a' cannot be decoded \(OSError: image file is trunc"),
    ):
        write_picture("a", picture)
    with pytest.raises(WrongItem, match=r"'a' must be of numbers, got <U1"):
        write_array("a", np.array([["x"]]))


@pytest.mark.e2e
def test_pillow_is_not_imported_to_find_out():
    script = (
        "import sys; from image_pipeline.components.generators import generator_items; "
        "generator_items.encode_record({'image': 5}, ()); sys.exit('PIL' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
    assert is_picture(Image.new("L", (1, 1))) and not is_picture(draw(1))
