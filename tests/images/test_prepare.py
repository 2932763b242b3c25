import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.images.prepare import (
    REASONS,
    BadImage,
    PreparedImage,
    PrepareOptions,
    prepare_image,
)
from tests.images import zoo

pytestmark = pytest.mark.unit

AS_IS = PrepareOptions(resize="none", encoding="raw")
JPEG = zoo.save_jpeg(zoo.NOISE, quality=90)  # 96 x 64
PNG = zoo.save(zoo.NOISE, "PNG")
PHOTO_SIZE = (300, 400)  # height, width


def photo() -> np.ndarray:
    """A smooth image, as photos are: uint8 [300, 400, 3]."""
    y, x = np.mgrid[: PHOTO_SIZE[0], : PHOTO_SIZE[1]]
    return np.dstack([x * 255 // 399, y * 255 // 299, (x + y) * 255 // 698]).astype(np.uint8)


def pixels_of(image: PreparedImage) -> np.ndarray:
    if image.format == "raw":
        shape = (image.height, image.width, image.channels)
        return np.frombuffer(image.encoded, np.uint8).reshape(shape)
    return np.asarray(Image.open(io.BytesIO(image.encoded)))


def prepare(data: bytes, **options: Any) -> PreparedImage:
    return prepare_image(data, PrepareOptions(**options))


# --- the zoo ----------------------------------------------------------------------------------


def test_zoo_is_large_and_shows_every_reason():
    assert len(zoo.ZOO) >= 45
    outcomes = {file.outcome for file in zoo.ZOO.values()}
    assert {zoo.WRITTEN, *REASONS} - outcomes == {"too_large_file"}  # set by options


_GRAY = {
    *("jpeg_gray", "jpeg_gray_rgb_profile", "png_gray", "tiff_fax", "tiff_gray_16_bit", "npy_gray"),
    *("bmp_8_bit", "npy_one_channel", "png_1_bit", "png_2_bit"),
    *("png_4_bit", "png_4_bit_clear_level", "png_gray_16_bit", "png_gray_alpha", "jxl_gray"),
    *("dicom_gray", "dicom_window", "dicom_16_bit", "dicom_tables", "dicom_jpeg"),
}


@pytest.mark.parametrize("name", zoo.ZOO)
def test_zoo(name: str):
    file = zoo.ZOO[name]
    if file.outcome != zoo.WRITTEN:
        with pytest.raises(BadImage) as caught:
            prepare_image(file.data, AS_IS)
        assert (caught.value.reason, bool(caught.value.message)) == (file.outcome, True)
        return
    assert file.pixels is not None
    image = prepare_image(file.data, AS_IS)
    assert (image.source_format, image.orientation) == (file.source_format, file.orientation)
    assert image.notes == (*file.notes, *(["gray"] if name in _GRAY else []))
    assert (image.height, image.width, image.channels) == file.pixels.shape
    swapped = file.orientation >= 5
    header = (image.source_width, image.source_height)
    assert (header if swapped else header[::-1]) == file.pixels.shape[:2]
    difference = np.abs(pixels_of(image).astype(int) - file.pixels)
    assert difference.max() <= file.tolerance


@pytest.mark.parametrize(
    ("name", "color", "notes"),
    [
        ("png_gray", "rgb", ("gray",)),
        ("png_gray", "gray", ()),
        ("png", "rgb", ()),
        ("png", "gray", ("color",)),
    ],
)
def test_channels_that_were_merged_or_repeated_are_noted(name, color, notes):
    assert prepare(zoo.ZOO[name].data, color=color).notes == notes


@pytest.mark.whole
@pytest.mark.parametrize("name", [n for n, f in zoo.ZOO.items() if f.outcome == zoo.WRITTEN])
@pytest.mark.parametrize("encoding", ["jpeg", "png"])
def test_no_metadata_survives(name: str, encoding: str):
    image = prepare(zoo.ZOO[name].data, resize="none", encoding=encoding)
    reopened = Image.open(io.BytesIO(image.encoded))
    reopened.load()
    assert str(reopened.format).lower() == image.format == encoding
    assert set(reopened.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert not reopened.getexif()


@pytest.mark.parametrize("name", ["jpeg", "png_gray", "png_alpha", "jpeg_profile", "tiff_cmyk"])
def test_gray(name: str):
    image = prepare(zoo.ZOO[name].data, resize="none", encoding="raw", color="gray")
    upright = zoo.ZOO[name].pixels
    assert upright is not None
    expected = np.asarray(Image.fromarray(upright).convert("L")).astype(int)
    assert image.channels == 1
    assert np.abs(pixels_of(image)[:, :, 0] - expected).max() <= 4


def test_bad_image_survives_pickling():
    error = pickle.loads(pickle.dumps(BadImage("corrupt", "why")))
    assert (error.reason, error.message, str(error)) == ("corrupt", "why", "corrupt: why")


# --- options: each changes something ----------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (256, 341)),
        ({"size_px": 100}, (100, 133)),
        ({"resize": "longer_side", "size_px": 100}, (75, 100)),
        ({"resize": "exact", "size_px": 100}, (100, 100)),
        ({"resize": "none"}, (300, 400)),
        ({"size_px": 600}, (300, 400)),
        ({"size_px": 600, "enlarge": True}, (600, 800)),
        ({"resize": "exact", "size_px": 350}, (300, 400)),
        ({"resize": "exact", "size_px": 350, "enlarge": True}, (350, 350)),
        ({"resize": "longer_side", "size_px": 500, "enlarge": True}, (375, 500)),
    ],
)
def test_resize(options: dict, expected: tuple[int, int]):
    image = prepare(zoo.save(photo(), "PNG"), **options, encoding="raw")
    assert (image.height, image.width) == expected
    assert (image.source_height, image.source_width) == PHOTO_SIZE
    # Both a shrunk and an enlarged gradient keep their corners, up to the filter's reach.
    corners = pixels_of(image)[[0, 0, -1, -1], [0, -1, 0, -1]].astype(int)
    assert np.abs(corners - photo()[[0, 0, -1, -1], [0, -1, 0, -1]]).max() <= 2


def test_shrinking_averages_instead_of_skipping():
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    image = prepare(zoo.save(stripes, "PNG"), size_px=32, encoding="raw")
    assert set(pixels_of(image).ravel()) <= {127, 128}


def test_thin_images_keep_a_pixel():
    image = prepare(zoo.ZOO["png_1x5000"].data, resize="longer_side", size_px=100)
    assert (image.height, image.width) == (100, 1)


def test_jpeg_quality_changes_the_size():
    data = zoo.save(photo(), "PNG")
    sizes = [len(prepare(data, jpeg_quality=quality).encoded) for quality in (30, 90, 100)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[2] / 2


def test_encodings_hold_the_same_pixels():
    data = zoo.save(photo(), "PNG")
    raw, png, jpeg = (prepare(data, encoding=e) for e in ("raw", "png", "jpeg"))
    assert [image.format for image in (raw, png, jpeg)] == ["raw", "png", "jpeg"]
    assert len(raw.encoded) == 256 * 341 * 3
    np.testing.assert_array_equal(pixels_of(raw), pixels_of(png))
    assert np.abs(pixels_of(raw).astype(int) - pixels_of(jpeg)).mean() < 2


def test_alpha_background():
    image = prepare(
        zoo.ZOO["png_alpha"].data, resize="none", encoding="raw", alpha_background=(10, 20, 30)
    )
    assert pixels_of(image)[0, 0].tolist() == [10, 20, 30]
    assert pixels_of(image)[0, 30].tolist() == [14, 52, 36]  # 0.2 * (30, 180, 60) + 0.8 * this
    assert pixels_of(image)[20, 0].tolist() == [20, 60, 210]


@pytest.mark.parametrize(
    ("option", "allowed", "refused", "reason", "message"),
    [
        ("min_side_px", 64, 65, "too_small", "96x64 px, below min_side_px=65"),
        ("max_pixels", 6144, 6143, "too_many_pixels", "96x64 px, more than max_pixels=6143"),
        ("max_file_bytes", len(JPEG), 100, "too_large_file", "more than max_file_bytes=100"),
    ],
)
def test_limits(option: str, allowed: int, refused: int, reason: str, message: str):
    prepare(JPEG, **{option: allowed})
    with pytest.raises(BadImage, match=message) as caught:
        prepare(JPEG, **{option: refused})
    assert caught.value.reason == reason


def test_enlarging_is_held_to_max_pixels():
    with pytest.raises(BadImage, match="resizing gives 256x1280000 px") as caught:
        prepare(zoo.ZOO["png_1x5000"].data, enlarge=True)
    assert caught.value.reason == "too_many_pixels"


def test_too_long_for_jpeg():
    data = zoo.save(np.zeros((1, 65_501), np.uint8), "PNG")
    with pytest.raises(BadImage, match="at most 65500 px, not 65501; resize it or store png"):
        prepare(data, resize="none")
    assert prepare(data, resize="none", encoding="png").width == 65_501


def test_above_pillows_own_limit():
    data = zoo.make_png((30_000, 20_000), 1, 0, b"")
    with pytest.raises(BadImage) as caught:  # refused for its missing rows, not for its size
        prepare(data, max_pixels=2**30)
    assert caught.value.reason == "corrupt"


# --- encoding="original" ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["jpeg", "jpeg_progressive", "jpeg_srgb_profile", "jpeg_gps", "jpeg_trailing_garbage", "png"],
)
def test_original_keeps_the_bytes(name: str):
    file = zoo.ZOO[name]
    image = prepare(file.data, encoding="original")
    assert image.encoded == file.data
    assert (image.format, image.height, image.width) == (file.source_format, 32, 48)


@pytest.mark.parametrize(
    ("name", "options", "stored_format"),
    [
        ("jpeg", {"size_px": 16}, "jpeg"),
        ("png", {"size_px": 16}, "png"),
        ("jpeg", {"color": "gray"}, "jpeg"),
        ("jpeg_gray", {}, "jpeg"),
        ("jpeg_orientation_6", {}, "jpeg"),
        ("jpeg_profile", {}, "jpeg"),
        ("jpeg_cmyk", {}, "jpeg"),
        ("png_alpha", {}, "png"),
        ("png_rgb_16_bit", {}, "png"),
        ("bmp_24_bit", {}, "png"),
        ("gif", {}, "png"),
        ("tiff_lzw", {}, "png"),
        ("tiff_jpeg", {}, "jpeg"),
        ("webp", {}, "jpeg"),
    ],
)
def test_original_encodes_what_needs_conversion(name: str, options: dict, stored_format: str):
    data = zoo.ZOO[name].data
    image = prepare(data, encoding="original", **options)
    assert image.encoded != data
    assert image.format == stored_format
    assert str(Image.open(io.BytesIO(image.encoded)).format).lower() == stored_format


def test_original_keeps_gray_where_gray_is_wanted():
    data = zoo.ZOO["jpeg_gray"].data
    image = prepare(data, encoding="original", color="gray")
    assert (image.encoded, image.channels) == (data, 1)


def test_original_still_refuses_damaged_files():
    with pytest.raises(BadImage, match="truncated"):
        prepare(zoo.ZOO["jpeg_cut_half"].data, encoding="original")


# --- determinism and hostile bytes ------------------------------------------------------------


def test_threads_give_the_same_bytes():
    names = [name for name, file in zoo.ZOO.items() if file.outcome == zoo.WRITTEN]
    files = [zoo.ZOO[name].data for name in names]
    options = PrepareOptions(size_px=20)
    alone = [prepare_image(data, options) for data in files]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda data: prepare_image(data, options), files * 4))
    assert together == alone * 4


def either_written_or_refused(data: bytes) -> None:
    try:
        image = prepare_image(data, AS_IS)
    except BadImage as error:
        assert error.reason in REASONS
    else:
        assert len(image.encoded) == image.height * image.width * image.channels > 0


@given(
    start=st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"II*\0", b"BM", b"GIF89a"]),
    data=st.binary(max_size=300),
)
def test_random_bytes(start: bytes, data: bytes):
    either_written_or_refused(start + data)


@given(data=st.data())
def test_random_mutations(data: st.DataObject):
    names = ["jpeg_gps", "jpeg_progressive", "jpeg_cmyk", "jpeg_profile", "png_palette_clear"]
    names += ["png_rgb_16_bit", "tiff_lzw", "tiff_16_bit", "gif_animated", "webp_lossless_alpha"]
    file = bytearray(zoo.ZOO[data.draw(st.sampled_from(names))].data)
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    either_written_or_refused(bytes(file[: data.draw(st.integers(1, len(file)))]))


@pytest.mark.parametrize("file", [JPEG, PNG], ids=["jpeg", "png"])
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_every_truncation_is_refused(file: bytes, fraction: float):
    with pytest.raises(BadImage):
        prepare_image(file[: int(len(file) * fraction)], AS_IS)
