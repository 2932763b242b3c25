import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from image_pipeline.components.images.bad_image import CORRUPT, TRUNCATED, UNSUPPORTED, BadImage
from image_pipeline.components.images.npy import name_type, read_array, read_array_header
from tests.images import zoo

pytestmark = pytest.mark.unit

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
