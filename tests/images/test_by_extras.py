import io

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage
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
