import contextlib
import io
import struct

import numpy as np
import pillow_heif
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from image_pipeline.components.images.bad_image import CORRUPT, TRUNCATED, UNSUPPORTED, BadImage
from image_pipeline.components.images.containers import move_metadata_up, take_default_image
from image_pipeline.components.images.npy import name_type, read_array, read_array_header
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from tests.images import zoo
from tests.images.extra_files import save_heic

pytestmark = pytest.mark.unit

AS_IS = PrepareOptions(resize="none", encoding="raw")
_ORIENTATION = b"\x01\x12\x00\x03\x00\x00\x00\x01\x00"  # in EXIF, up to its value's low byte


def prepare(data: bytes) -> tuple[np.ndarray, tuple[str, ...]]:
    image = prepare_image(data, AS_IS)
    assert (image.source_format, image.orientation) == ("heic", 1)
    pixels = np.frombuffer(image.encoded, np.uint8)
    return pixels.reshape(image.height, image.width, image.channels), image.notes


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("exif", [None, 1])
def test_turns_and_mirrors_are_applied_once(orientation, exif):
    """pillow-heif writes what EXIF says as `irot` and `imir`, too; only these are applied."""
    data = save_heic(zoo.store_rotated(orientation), exif=zoo.make_exif(orientation))
    assert (b"irot" in data or b"imir" in data) == (orientation > 1)
    if exif is not None:
        at = data.index(_ORIENTATION) + len(_ORIENTATION)
        data = data[:at] + bytes([exif]) + data[at + 1 :]
    pixels, notes = prepare(data)
    assert np.array_equal(pixels, zoo.PATTERN) and notes == ()


def test_a_turn_that_only_exif_names_is_not_applied():
    data = save_heic(zoo.PATTERN, exif=zoo.make_exif(1))
    at = data.index(_ORIENTATION) + len(_ORIENTATION)
    pixels, _ = prepare(data[:at] + b"\6" + data[at + 1 :])
    assert np.array_equal(pixels, zoo.PATTERN)


def test_a_colour_profile_becomes_srgb():
    image = pillow_heif.from_pillow(Image.fromarray(zoo.PATTERN))
    image.info.update(icc_profile=zoo.swapped_profile(), icc_profile_type="prof")
    file = io.BytesIO()
    image.save(file, quality=-1, chroma=444, matrix_coefficients=0)
    pixels, notes = prepare(file.getvalue())
    assert notes == ("icc",)
    assert np.array_equal(pixels, zoo.PATTERN[:, :, ::-1])


def test_a_photo_is_what_libheif_makes_of_it():
    file = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(zoo.NOISE)).save(file, quality=60)
    judge = pillow_heif.open_heif(io.BytesIO(file.getvalue())).to_pillow()
    assert np.array_equal(prepare(file.getvalue())[0], np.asarray(judge))


@pytest.mark.parametrize(
    ("size", "reason", "said"),
    [
        ((60, 40), "corrupt", "does not have the size"),
        ((13_000, 13_000), "corrupt", "does not have the size"),
        ((30_000, 6_000), "too_many_pixels", "30000x6000 px, more than max_pixels"),
    ],
)
def test_a_size_that_is_not_the_pixels_own_is_refused(size, reason, said):
    data = save_heic(zoo.NOISE)
    at = data.index(b"ispe") + 8
    width, height = (each.to_bytes(4, "big") for each in size)
    with pytest.raises(BadImage, match=said) as caught:
        prepare(data[:at] + width + height + data[at + 8 :])
    assert caught.value.reason == reason


def test_nothing_is_registered_with_pillow(monkeypatch):
    """Whatever another library of this process has registered before (imageio does)."""
    monkeypatch.setattr(
        Image, "OPEN", {kind: Image.OPEN[kind] for kind in Image.OPEN if kind != "HEIF"}
    )
    prepare(zoo.ZOO["heic"].data)
    assert "HEIF" not in Image.OPEN


def test_an_avif_that_calls_itself_a_general_heif_is_one():
    avif = zoo.ZOO["avif"].data
    renamed = avif[:8] + b"mif1" + avif[12:]
    assert prepare_image(renamed, AS_IS).source_format == "avif"


def test_a_heif_of_another_codec_is_unsupported():
    data = zoo.ZOO["heic"].data.replace(b"hvc1", b"vvc1")
    with pytest.raises(BadImage) as caught:
        prepare(data)
    assert caught.value.reason == UNSUPPORTED


DTYPES = [f"{order}{kind}" for order in "<>" for kind in ("u2", "i4", "f2", "f8")] + ["|u1", "|i1"]


def read(data: bytes) -> np.ndarray:
    return read_array(data, read_array_header(data))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_plain_array_is_read_as_numpy_reads_it(dtype, order, version):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype, order=order)
    found = read(zoo.save_array(array, version))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert found.flags.c_contiguous


@given(
    arrays.arrays(
        st.sampled_from(["u1", "<i2", ">f4"]),
        arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    )
)
def test_any_shape_is_read(array):
    np.testing.assert_array_equal(read(zoo.save_array(array)), array)


def test_headers_of_other_writers_are_read():
    """Other libraries order and space the header otherwise than NumPy."""
    header = b'{"shape": (2,3), "fortran_order":False,"descr":"|u1"}\n'
    data = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + bytes(range(6))
    np.testing.assert_array_equal(read(data), np.arange(6).reshape(2, 3))


WHOLE = zoo.save_array(np.zeros((2, 3), np.uint16))


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        (WHOLE[:6], TRUNCATED, "the .npy file ends at byte 6, within its header"),
        (WHOLE[:90], TRUNCATED, "the .npy file ends at byte 90, within its header"),
        (WHOLE[:-3], TRUNCATED, "9 bytes of data, where the .npy header asks for 12"),
        (WHOLE + b"ab", CORRUPT, "14 bytes of data, where the .npy header asks for 12"),
        (WHOLE[:6] + b"\x04" + WHOLE[7:], UNSUPPORTED, "version 4 of the .npy format"),
        (WHOLE.replace(b"shape", b"shale"), CORRUPT, 'the .npy header is damaged: "{'),
        (WHOLE.replace(b"2, 3", b"2\t 3"), CORRUPT, 'the .npy header is damaged: "{'),
        (WHOLE.replace(b", 3", b",\x1d3"), CORRUPT, 'the .npy header is damaged: "{'),
        (
            WHOLE.replace(b"u2", b"u\xb9"),
            UNSUPPORTED,
            "an array of u\xb9; save one of plain numbers",
        ),
        (zoo.save_array(np.zeros(2, "u1,f4")), UNSUPPORTED, "an array of structures"),
        (zoo.save_array(np.array([{}])), UNSUPPORTED, "an array of Python objects, which are ne"),
        (zoo.save_array(np.zeros(2, "<M8[s]")), UNSUPPORTED, "an array of M8; save one of plain"),
        (zoo.save_array(np.zeros(2, "S5")), UNSUPPORTED, "an array of S5; save one of plain num"),
    ],
)
def test_what_is_no_plain_whole_array_is_refused(data, reason, message):
    with pytest.raises(BadImage) as caught:
        read(data)
    assert caught.value.reason == reason
    assert message in caught.value.message


@given(st.integers(0, 127), st.binary(min_size=1, max_size=4))
def test_no_damage_of_a_header_is_an_error_of_ours(place, damage):
    data = bytearray(WHOLE)
    data[place : place + len(damage)] = damage
    with contextlib.suppress(BadImage):
        read(bytes(data))


def test_types_have_names():
    assert [name_type(each) for each in ("f4", "u2", "c8", "b1", "O", "V12")] == [
        *("float32", "uint16", "complex64", "bool"),
        *("Python objects, which are never unpickled", "V12"),
    ]


APART = zoo.ZOO["png_animated_apart"].data


@pytest.mark.parametrize("name", ["png_animated", "png_animated_apart"])
def test_the_default_image_is_the_file_without_its_animation(name: str):
    still = take_default_image(zoo.ZOO[name].data)
    assert not {b"acTL", b"fcTL", b"fdAT"} & {still[i : i + 4] for i in range(len(still))}
    with Image.open(io.BytesIO(still)) as image:
        assert not image.is_animated
        np.testing.assert_array_equal(np.asarray(image), zoo.PATTERN)


@pytest.mark.parametrize("name", ["png", "png_trailing_garbage", "png_no_end", "jpeg"])
def test_a_still_image_is_left_as_it_is(name: str):
    data = zoo.ZOO[name].data
    assert take_default_image(data) is data
    assert move_metadata_up(data) is data


def test_tensorflow_sees_what_is_stored():
    import tensorflow as tf

    seen = tf.io.decode_png(APART, channels=3).numpy()
    assert prepare_image(APART, AS_IS).encoded == seen.tobytes()


def test_an_animation_of_one_frame_is_not_kept_as_it_is():
    """OpenCV, which reads views, would show its frame; TensorFlow the default image."""
    png = zoo.save(zoo.PATTERN, "PNG")
    frames = zoo.chunk(b"acTL", struct.pack(">II", 1, 0))
    frames += zoo.chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 48, 32, 0, 0, 1, 10, 0, 0))
    image = prepare_image(png[:33] + frames + png[33:], PrepareOptions(encoding="original"))
    assert image.notes == ("frames:1",)
    assert b"acTL" not in image.encoded


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_a_cut_animation_is_refused(share: float):
    with pytest.raises(BadImage):
        prepare_image(APART[: int(len(APART) * share)], AS_IS)


def test_metadata_behind_the_pixels_comes_before_them():
    late = zoo.ZOO["png_late_orientation_6"].data
    moved = move_metadata_up(late)
    assert moved.index(b"eXIf") < moved.index(b"IDAT") < late.index(b"eXIf")
    with Image.open(io.BytesIO(moved)) as image:
        assert "exif" in image.info


def test_late_metadata_with_a_wrong_checksum_is_passed_over():
    late = bytearray(zoo.ZOO["png_late_orientation_6"].data)
    late[late.index(b"eXIf") + 8] ^= 1
    assert move_metadata_up(bytes(late)) == bytes(late)
