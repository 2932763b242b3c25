import io
import struct

import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.containers import move_metadata_up, take_default_image
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from tests.images import zoo

pytestmark = pytest.mark.unit

AS_IS = PrepareOptions(resize="none", encoding="raw")
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
