import cv2
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.served import kinds
from image_pipeline.components.served.decode import take_views
from image_pipeline.components.served.values import decode_values, explain_unread
from image_pipeline.components.views.options import ViewOptions
from tests.images import zoo

pytestmark = pytest.mark.unit

RANDOM = np.random.default_rng(6)
SIX = RANDOM.integers(0, 65536, (5, 7, 6), np.uint16)
RGB = SIX[:, :, :3].copy()
FLOATS = RANDOM.normal(0, 1e4, (5, 7)).astype(np.float32)


def view_of(channels: int, dtype: str = "float32") -> ViewOptions:
    return ViewOptions(height_px=5, width_px=7, channels=channels, dtype=dtype)


@pytest.mark.parametrize(
    ("array", "dtype", "view"),
    [
        (SIX, "uint16", view_of(6)),
        (SIX.astype(">u2"), "uint16", view_of(6)),
        (np.asfortranarray(SIX), "uint16", view_of(6)),
        (SIX[:, :, 0], "uint16", view_of(1)),
        (np.asfortranarray(FLOATS), "float32", view_of(1)),
        (FLOATS.astype("f8") / 3, "float32", view_of(1)),
        (FLOATS.astype("i2"), "float32", view_of(1)),
        (FLOATS.astype("i1"), "float32", view_of(1)),
        (FLOATS.astype("f2"), "float16", view_of(1)),
        ((SIX >> 8).astype("u1"), "uint8", view_of(6, "uint8")),
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_an_array_is_read_as_ingest_reads_it(array, dtype, view, version):
    found = tf.function(lambda file: decode_values(file, dtype, view))(
        tf.constant(zoo.save_array(array, version))
    )
    assert found.dtype == view.dtype
    expected = array.reshape(5, 7, -1).astype(view.dtype)
    np.testing.assert_array_equal(found, expected)


def test_a_png_of_16_bits_is_read():
    file = tf.constant(cv2.imencode(".png", RGB[:, :, ::-1])[1].tobytes())
    np.testing.assert_array_equal(decode_values(file, "uint16", view_of(3)), RGB.astype("f4"))
    gray = tf.constant(cv2.imencode(".png", SIX[:, :, 0])[1].tobytes())
    expected = np.dstack([SIX[:, :, 0].astype("f4")] * 3)
    np.testing.assert_array_equal(decode_values(gray, "uint16", view_of(3)), expected)


def _say(found: str) -> bytes:
    text = f"unsupported: an array of {found}, where uint16 (height, width, 6) is required"
    return text.encode()


OTHER = (
    b"unsupported: a served model takes .npy files of the values that it has learned from, and "
    b"of uint16 ones PNGs of 16 bits; save the image's values by numpy.save"
)
WHOLE = zoo.save_array(SIX)
BAD = {
    "whole": (WHOLE, b""),
    "cut": (WHOLE[:-1], b"corrupt"),
    "cut in the header": (WHOLE[:50], b"corrupt"),
    "cut after the magic": (WHOLE[:6], b"corrupt"),
    "surplus": (WHOLE + b"xx", b"corrupt"),
    "another type": (zoo.save_array(SIX.astype("f4")), _say("<f4 (5, 7, 6)")),
    "other channels": (zoo.save_array(RGB), _say("<u2 (5, 7, 3)")),
    "version 2": (zoo.save_array(RGB, (2, 0)), _say("<u2 (5, 7, 3)")),
    "flat": (zoo.save_array(SIX[:, :, 0]), _say("<u2 (5, 7)")),
    "one row": (zoo.save_array(SIX[0, 0]), _say("<u2 (6,)")),
    "objects": (zoo.save_array(np.array([[{}]])), _say("|O (1, 1)")),
    "png of 8 bits": (zoo.ZOO["png"].data, b"corrupt"),
    "jpeg": (zoo.ZOO["jpeg"].data, OTHER),
    "tiff": (zoo.ZOO["tiff"].data, OTHER),
    "text": (b"a cat", b"not_an_image"),
    "empty": (b"", b"empty"),
}


def test_what_is_not_read_costs_its_own_row():
    view = view_of(6)
    files = tf.constant([file for file, _ in BAD.values()])
    decode = tf.function(
        lambda files: take_views(
            lambda file: tf.ensure_shape(decode_values(file, "uint16", view), [5, 7, 6]),
            *(files, tf.zeros([5, 7, 6]), lambda files: explain_unread(files, "uint16", 6)),
        )
    )
    views, errors = decode(files)
    assert dict(zip(BAD, errors.numpy(), strict=True)) == {
        name: bad for name, (_, bad) in BAD.items()
    }
    np.testing.assert_array_equal(views[0], SIX.astype("f4"))
    assert not views[1:].numpy().any()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_values_that_are_not_finite_are_refused(value):
    array = FLOATS.astype("f8")
    array[2, 3] = value
    with pytest.raises(tf.errors.InvalidArgumentError, match="not finite"):
        decode_values(tf.constant(zoo.save_array(array)), "float32", view_of(1))


@pytest.mark.parametrize("channels", [1, 3])
def test_gray_and_color_stand_for_each_other(channels):
    arrays = [FLOATS, FLOATS[..., None], np.dstack([FLOATS] * 3), np.dstack([FLOATS] * 4)]
    files = tf.constant([zoo.save_array(each)[:-1] for each in arrays])
    errors = explain_unread(files, "float32", channels).numpy().tolist()
    asked = b"), where float32 (height, width, %d) is required" % channels
    assert errors == [b"corrupt"] * 3 + [b"unsupported: an array of <f4 (5, 7, 4" + asked]


def test_files_that_hold_no_such_values_are_unsupported():
    png = tf.constant([zoo.ZOO["png"].data])
    assert explain_unread(png, "float32", 3).numpy() == [OTHER]
    files = [WHOLE, *(zoo.ZOO[name].data for name in ("heic", "jxl", "jxl_jpeg", "dicom"))]
    assert set(kinds.explain_unserved(tf.constant(files)).numpy()) == {kinds.NOT_DECODED.encode()}
