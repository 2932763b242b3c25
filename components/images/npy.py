"""NumPy's `.npy` files: an array of pixels as it is in memory, behind a short header.

Read here, not by `np.load`: nothing in a file is ever evaluated or unpickled, and the header is
checked against the limits before any data is touched.
"""

import io
import math
import re
from dataclasses import dataclass

import numpy as np

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)

# https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
NPY_MAGIC = b"\x93NUMPY"
"""What an `.npy` file begins with."""
# By major version: how many bytes the header's length takes.
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
# NumPy pads headers of plain types to 128 bytes; only structures of many fields need more.
_MOST_HEADER_BYTES = 4096
_TYPE = re.compile(r"""['"]descr['"]:\s*['"]([<>|=]?)(\w+)(?:\[\w+\])?['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]:\s*(True|False)""")
_SIDES = r"(?:\s*+\d{1,15}+\s*+,)*+\s*+(?:\d{1,15}+)?+\s*+"
_SHAPE = re.compile(rf"""['"]shape['"]:\s*\(({_SIDES})\)""", re.ASCII)
_NUMBERS = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """What an `.npy` file says of its array."""

    dtype: str
    """As NumPy abbreviates it, without its byte order: `u1`, `f4`, `O` …"""
    is_big_endian: bool
    is_fortran: bool
    """Whether the first index changes fastest, not the last."""
    shape: tuple[int, ...]
    start: int
    """Where the data begins, in bytes."""


def read_array_header(data: bytes) -> ArrayHeader:
    """Reads the header of an `.npy` file, of which `data` may be only the first bytes.

    Raises:
      BadImage: the header is damaged, or describes no plain array.
    """
    length_bytes = _LENGTH_BYTES.get(data[6] if len(data) > 6 else 1)
    if length_bytes is None:
        raise BadImage(UNSUPPORTED, f"version {data[6]} of the .npy format; 1 to 3 are known")
    at = len(NPY_MAGIC) + 2 + length_bytes
    length = int.from_bytes(data[at - length_bytes : at], "little")
    if length > _MOST_HEADER_BYTES:
        message = f"its .npy header has {length} bytes: structured, or damaged; save plain numbers"
        raise BadImage(UNSUPPORTED, message)
    if len(data) < at + length:
        raise BadImage(TRUNCATED, f"the .npy file ends at byte {len(data)}, within its header")
    text = data[at : at + length].decode("latin-1")
    named, order, shape = (pattern.search(text) for pattern in (_TYPE, _ORDER, _SHAPE))
    if not (order and shape):
        raise BadImage(CORRUPT, f"the .npy header is damaged: {text.strip()!r}")
    if not named:
        raise BadImage(UNSUPPORTED, "an array of structures; save an array of plain numbers")
    return ArrayHeader(
        dtype=named[2],
        is_big_endian=named[1] == ">",
        is_fortran=order[1] == "True",
        shape=tuple(int(side) for side in shape[1].split(",") if side.strip()),
        start=at + length,
    )


def read_array(data: bytes, header: ArrayHeader) -> np.ndarray:
    """Reads the array of an `.npy` file.

    Returns:
      [*header.shape], row-major, in the machine's byte order; a view of `data` where it can be.

    Raises:
      BadImage: it is not of plain numbers, or there are fewer or more bytes than the header says.
    """
    if header.dtype not in _NUMBERS:
        message = f"an array of {name_type(header.dtype)}; save one of plain numbers"
        raise BadImage(UNSUPPORTED, message)
    dtype = np.dtype(header.dtype).newbyteorder(">" if header.is_big_endian else "<")
    needed, found = math.prod(header.shape) * dtype.itemsize, len(data) - header.start
    if found != needed:
        message = f"{found} bytes of data, where the .npy header asks for {needed}"
        raise BadImage(TRUNCATED if found < needed else CORRUPT, message)
    array = np.frombuffer(data, dtype, offset=header.start)
    array = array.astype(dtype.newbyteorder("="), copy=False)
    if not header.is_fortran:
        return array.reshape(header.shape)
    return np.ascontiguousarray(array.reshape(header.shape, order="F"))


_TYPES = {"u": "uint", "i": "int", "f": "float", "c": "complex"}
_OTHER_TYPES = {"O": "Python objects, which are never unpickled", "b1": "bool", "?": "bool"}


def name_type(dtype: str) -> str:
    """Returns a type's name in words: `float32` for `f4`; others as they are."""
    if dtype in _OTHER_TYPES:
        return _OTHER_TYPES[dtype]
    kind, size = dtype[:1], dtype[1:]
    is_number = kind in _TYPES and size.isdecimal() and len(size) < 3
    return f"{_TYPES[kind]}{int(size) * 8}" if is_number else dtype


def make_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """What a file begins with of an array in C order, whose values have the least byte first."""
    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype.newbyteorder("<"))
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def make_file(array: np.ndarray) -> bytes:
    """A whole file of an array, in the order and of the type that it has.

    Raises:
      ValueError: if it is of Python objects.
    """
    file = io.BytesIO()
    np.lib.format.write_array(file, array, (1, 0), allow_pickle=False)
    return file.getvalue()
