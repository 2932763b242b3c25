"""NumPy's `.npy` files: an array of pixels as it is in memory, behind a short header.

Read here, not by `np.load`: nothing in a file is ever evaluated or unpickled, and the header is
checked against the limits before any data is touched.
"""

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
MAGIC = b"\x93NUMPY"
# By major version: how many bytes the header's length takes.
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
# NumPy pads headers of plain types to 128 bytes; only structures of many fields need more.
_MOST_HEADER_BYTES = 4096
_TYPE = re.compile(r"""['"]descr['"]:\s*['"]([<>|=]?)(\w+)(?:\[\w+\])?['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]:\s*\(((?:\s*\d{1,15}\s*,?)*)\s*\)""")


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


def is_npy(data: bytes) -> bool:
    """Tells whether a file begins as an `.npy` file."""
    return data.startswith(MAGIC)


def read_array_header(data: bytes) -> ArrayHeader:
    """Reads the header of an `.npy` file, of which `data` may be only the first bytes.

    Raises:
      BadImage: the header is damaged, or describes no plain array.
    """
    length_bytes = _LENGTH_BYTES.get(data[6] if len(data) > 6 else 1)
    if length_bytes is None:
        raise BadImage(UNSUPPORTED, f"version {data[6]} of the .npy format; 1 to 3 are known")
    at = len(MAGIC) + 2 + length_bytes
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
      uint8 [*header.shape], row-major; a view of `data` where its order allows.

    Raises:
      BadImage: it is of another type, or there are fewer or more bytes than the header says.
    """
    if header.dtype != "u1":
        raise BadImage(UNSUPPORTED, f"an array of {name_type(header.dtype)}; only uint8 is read")
    needed, found = math.prod(header.shape), len(data) - header.start
    if found != needed:
        message = f"{found} bytes of data, where the .npy header asks for {needed}"
        raise BadImage(TRUNCATED if found < needed else CORRUPT, message)
    array = np.frombuffer(data, np.uint8, offset=header.start)
    if not header.is_fortran:
        return array.reshape(header.shape)
    return np.ascontiguousarray(array.reshape(header.shape, order="F"))


_TYPES = {"u": "uint", "i": "int", "f": "float", "c": "complex", "b": "bool"}
_OTHER_TYPES = {"O": "Python objects, which are never unpickled", "b1": "bool", "?": "bool"}


def name_type(dtype: str) -> str:
    """Returns a type's name in words: `float32` for `f4`."""
    if dtype in _OTHER_TYPES:
        return _OTHER_TYPES[dtype]
    kind, size = dtype[:1], dtype[1:]
    return f"{_TYPES[kind]}{int(size) * 8}" if kind in _TYPES and size.isdigit() else dtype
