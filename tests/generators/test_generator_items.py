"""Items become plain cells and files of images, or arrays of stated types; or they are named."""

import io
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from image_pipeline.components.generators.generator_items import (
    Leaf,
    as_array,
    encode_record,
    encode_structure,
    is_picture,
    write_array,
    write_picture,
)
from image_pipeline.components.generators.generator_worker import WrongItem
from image_pipeline.components.images.decode import decode_image
from image_pipeline.components.images.options import PrepareOptions
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit


COLUMNS = ("image", "photo", "mask")


def _encode(item):
    cells, pieces = encode_record(item, COLUMNS)
    return cells, {name: b"".join(each) for name, each in pieces.items()}


def test_an_array_is_an_npy_file(tmp_path):
    for array in (draw(1), draw(1)[::-1, ::2], np.asfortranarray(draw(2)), np.ones((2, 3), ">u2")):
        cells, images = _encode({"image": array})
        (tmp_path / "a.npy").write_bytes(images["image"])
        loaded = np.load(tmp_path / "a.npy")
        assert cells == {} and loaded.dtype == array.dtype
        np.testing.assert_array_equal(loaded, array)


def test_bytes_are_files_in_columns_of_images_and_text_elsewhere():
    data = encode_png(draw(1))
    cells, images = _encode({"Photo": data, "mask": memoryview(b"xy"), "label": b"cat\xff"})
    assert images == {"Photo": data, "mask": b"xy"}
    assert cells == {"label": "cat\udcff"}


def test_a_pair_is_an_image_and_its_label():
    cells, images = _encode((draw(1), np.int64(3)))
    assert cells == {"label": 3} and type(cells["label"]) is int and list(images) == ["image"]


def test_cells_are_plain():
    item = {"a": np.float32(0.5), "b": np.array([1, 2]), "c": ("x", np.int8(1)), "d": None}
    item |= {"boxes": [{"bbox": np.array([1, 2, 3, 4]), "category": "cat"}], "e": np.array(7)}
    assert _encode(item)[0] == {
        **{"a": 0.5, "b": [1, 2], "c": ["x", 1], "d": None, "e": 7},
        "boxes": [{"bbox": [1, 2, 3, 4], "category": "cat"}],
    }


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (5, "must be a dict by columns' names or a pair .image, label., got int"),
        ((1, 2, 3), "got tuple of 3"),
        ({1: 2}, "got dict of 1"),
        ({"image": {1, 2}}, "'image' must be an array, a number, .* got set"),
        ({"when": pathlib.Path("x")}, "'when' must be .* got pathlib.*Path"),
        ({"image": np.array([["a", None]], object)}, "'image' must be of numbers, got object"),
    ],
)
def test_what_is_no_item_is_named(item, message):
    with pytest.raises(WrongItem, match=message):
        encode_record(item, COLUMNS)


def _decode(data):
    return decode_image(data, PrepareOptions(resize="none", alpha_background=(9, 9, 9)))


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


IMAGE = Leaf(np.dtype("uint8"), (2, None, 3))
LABEL = Leaf(np.dtype("int64"), ())
VALUE = Leaf(np.dtype("float32"), None)
TEXT = Leaf(None, (None,))


def test_leaves_come_in_the_order_of_their_names():
    structure = {"z": (LABEL, VALUE), "a": IMAGE, "t": TEXT}
    item = {"a": np.ones((2, 4, 3)), "t": ["x", b"y"], "z": [7, 0.1]}
    image, text, label, value = encode_structure(item, structure)
    assert image.dtype == np.uint8 and image.shape == (2, 4, 3) and image.flags.c_contiguous
    assert text.tolist() == [b"x", b"y"] and text.dtype == object
    assert (label.dtype, label.shape, int(label)) == (np.int64, (), 7)
    assert value == np.float32(0.1)


def test_an_image_that_does_not_lie_in_order_is_brought_into_it():
    image = np.arange(36, dtype=np.uint8).reshape(3, 4, 3).transpose(1, 0, 2)[::2]
    (found,) = encode_structure(image, IMAGE)
    np.testing.assert_array_equal(found, image)
    assert found.flags.c_contiguous


@pytest.mark.parametrize(
    ("item", "structure", "message"),
    [
        (np.zeros((3, 4, 3)), IMAGE, r"the item must be of shape \(2, None, 3\), got \(3, 4, 3\)"),
        (np.full((2, 1, 3), 0.5), IMAGE, "the item must be uint8, got float64 .values would cha"),
        (np.full((2, 1, 3), 256), IMAGE, "the item must be uint8, got int64 .values would change"),
        ((1,), (LABEL, LABEL), "the item must be 2 values, got tuple of 1"),
        (5, (LABEL, LABEL), "the item must be 2 values, got int"),
        ({"a": 1}, {"b": LABEL}, r"the item must have \['b'\], got \['a'\]"),
        ((1, {"a": (2, "x")}), (LABEL, {"a": (LABEL, VALUE)}), r"\[1\]\['a'\]\[1\] must be fl"),
        ([1, 2], TEXT, "the item must be text, got list"),
        ((1, None), (LABEL, LABEL), r"\[1\] must be int64, got NoneType"),
        ([[1], [2, 3]], VALUE, "the item must be float32, got list"),
    ],
)
def test_what_does_not_fit_is_named(item, structure, message):
    with pytest.raises(WrongItem, match=message):
        encode_structure(item, structure)
