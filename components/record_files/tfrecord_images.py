"""Images in TFRecords: bytes of a record that are a file, or pixels by what else the record says.

Pixels are a serialized tensor, bytes beside their shape, or bytes and lists of numbers of the shape
that all have. The checksum of a record is looked at when its image is read.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from image_pipeline.components.archives.byte_ranges import read_range
from image_pipeline.components.archives.file_bytes import open_packed
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.examples import (
    Feature,
    Parts,
    iterate_fields,
    parse_list,
    read_varint,
)
from image_pipeline.components.dataset.tfrecord import FOOTER_BYTES, masked_crc
from image_pipeline.components.images.bad_image import CORRUPT, UNSUPPORTED, BadImage
from image_pipeline.components.images.npy import make_header
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import Location

_KIND = "record"
# By `image/format`, of arrays that are stored as their bytes; the lowest byte is the first.
_DTYPES = {b"raw_uint16": "uint16", b"raw_float16": "float16", b"raw_float32": "float32"}
# What says the sides of arrays that are stored as their bytes, the first that there are.
_SIDES = (
    (record.HEIGHT, record.WIDTH, record.CHANNELS),
    ("height", "width", "channels"),
    ("height", "width", "depth"),
    ("rows", "cols", "depth"),
)
_SHAPES = ("image/shape", "shape", "image_shape")
# Of tensorflow/core/framework/types.proto; others are not pixels.
_TENSOR_DTYPES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8"}
_TENSOR_DTYPES |= {9: "int64", 17: "uint16", 19: "float16", 22: "uint32", 23: "uint64"}
# Fields of tensorflow/core/framework/tensor.proto; and of TensorShapeProto and its Dim.
_DTYPE, _SHAPE, _CONTENT = 1, 2, 4
_DIM, _SIZE = 2, 1
_MOST_PARTS = 64  # of a picture's tensor; what has more is another's bytes
Shape = tuple[int, ...]
"""Height, width, and channels if there is that axis."""
# What lists of numbers are, by their kind.
_LIST_DTYPES: Mapping[str, str] = {"float": "float32", "int": "uint8"}
_LIST = "list"


@dataclasses.dataclass(frozen=True, slots=True)
class Pixels:
    """What bytes are that are not an image file: an array in C order.

    Attributes:
      dtype: as NumPy names it.
      shape: height, width, and channels if it has that axis.
      is_list: whether it is a feature's list of numbers, and no bytes as they are.
    """

    dtype: str
    shape: Shape
    is_list: bool = False

    @property
    def size_bytes(self) -> int:
        """How many bytes they are."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def header(self) -> bytes:
        """What an `.npy` file of them begins with."""
        return make_header(np.dtype(self.dtype), self.shape)


class Found(NamedTuple):
    """Where pixels begin and end in a record's buffer, and what they are."""

    at: int
    end: int
    pixels: Pixels


def find_pixels(
    features: Mapping[str, Feature], feature: Feature, buffer: Any, shape: Shape = ()
) -> Found | None:
    """The array that a feature's only value is, by itself or by what else the record says.

    Args:
      features: all of the record.
      feature: one of bytes.
      buffer: what the record is in.
      shape: that of pixels of which the record does not say it; nothing if that is not known.
    """
    ((at, end),) = feature.values
    return find_tensor(buffer, at, end) or _find_bare(features, at, end, buffer, shape)


def find_list(feature: Feature, shape: Shape) -> Pixels | None:
    """The array that a feature's numbers are; None if they are not as many as its shape says."""
    is_one = feature.kind in _LIST_DTYPES and len(feature.values) == math.prod(shape)
    return Pixels(_LIST_DTYPES[feature.kind], shape, is_list=True) if is_one else None


def find_tensor(buffer: Any, start: int, end: int) -> Found | None:
    """The picture in what `tf.io.serialize_tensor` writes; None if it is something else."""
    dtype = ""
    shape: tuple[int, ...] = ()
    content: tuple[int, int] | None = None
    parts = Parts(_MOST_PARTS)
    try:
        for number, _, at, stop in iterate_fields(buffer, start, end, parts):
            if number == _DTYPE:
                dtype = _TENSOR_DTYPES.get(read_varint(buffer, at)[0], "")
            elif number == _SHAPE:
                shape = _read_shape(buffer, at, stop, parts)
            elif number == _CONTENT:
                content = at, stop
    except (ValueError, IndexError):
        return None
    if not dtype or len(shape) not in (2, 3) or content is None:
        return None
    return _fit(Pixels(dtype, shape), *content)


def _read_shape(buffer: Any, start: int, end: int, parts: Parts) -> tuple[int, ...]:
    """Sides in the order of the axes."""
    sides = []
    for number, _, at, stop in iterate_fields(buffer, start, end, parts):
        if number == _DIM:
            sizes = [
                read_varint(buffer, a)[0]
                for n, _, a, _ in iterate_fields(buffer, at, stop, parts)
                if n == _SIZE
            ]
            sides.append(sizes[-1] if sizes else 0)
    return tuple(sides)


def _find_bare(
    features: Mapping[str, Feature], at: int, end: int, buffer: Any, shape: Shape
) -> Found | None:
    """Pixels without anything around them, if they are as many as a shape beside them says."""
    dtype = "uint8"
    if record.FORMAT in features and (values := features[record.FORMAT].values):
        is_text = features[record.FORMAT].kind == "string"
        format_ = bytes(buffer[slice(*values[0])]) if is_text else b""
        dtype = _DTYPES.get(format_, dtype)
    shapes = [_shape_of(features, names) for names in _SIDES]
    shapes += [tuple(f.values) for n in _SHAPES if (f := features.get(n)) and f.kind == "int"]
    shapes.append(shape)
    fits = (_fit(Pixels(dtype, each), at, end) for each in shapes if len(each) in (2, 3))
    return next(filter(None, fits), None)


def _shape_of(features: Mapping[str, Feature], names: tuple[str, str, str]) -> tuple[int, ...]:
    """Of sides that are features each; without that of channels, height and width."""
    found = [features.get(name) for name in names]
    lists = [each.values if each and each.kind == "int" else [] for each in found]
    height, width, channels = (each[0] if len(each) == 1 and each[0] > 0 else 0 for each in lists)
    sides = (height, width, channels) if channels else (height, width)
    return sides if height and width else ()


def _fit(pixels: Pixels, at: int, end: int) -> Found | None:
    is_right = min(pixels.shape) > 0 and pixels.size_bytes == end - at
    return Found(at, end, pixels) if is_right else None


def make_location(
    path: str, packing: str, start: int, length: int, around: tuple[int, int], pixels: Pixels | None
) -> Location:
    """The place of bytes in a record.

    Args:
      path: of the file.
      packing: how it is packed, see `find_packing`.
      start: of the bytes, in the unpacked file.
      length: of the bytes.
      around: how many bytes of the record are before and behind them.
      pixels: what they are, if they are not a file.
    """
    inside = ["{}+{}".format(*around)]
    if pixels is not None:
        inside += [pixels.dtype, "x".join(map(str, pixels.shape)), *[_LIST] * pixels.is_list]
    kind = f"{_KIND}_{packing}" if packing else _KIND
    return Location(path, kind, start, length, " ".join(inside))


def read_image(ref: ImageRef, wanted: int) -> bytes:
    """Reads an image in a record; see `source_kinds.Reader`."""
    assert ref.location is not None
    location = ref.location
    (before, after), pixels = _parse(location)
    header = b"" if pixels is None else pixels.header
    is_list = pixels is not None and pixels.is_list
    if wanted < ref.size_bytes and (not is_list or wanted <= len(header)):
        return (header + _read(ref, location.start, max(0, wanted - len(header))))[:wanted]
    size = before + location.length + after
    record = _read(ref, location.start - before, size + FOOTER_BYTES)
    data, crc = record[:size], record[size:]
    if len(record) < size + FOOTER_BYTES:
        raise BadImage(CORRUPT, f"{location.file!r} ends within its record")
    if masked_crc(data) != crc:
        raise BadImage(CORRUPT, f"its record's data or checksum in {location.file!r} is damaged")
    image = data[before : before + location.length]
    return (header + (_read_list(image, pixels) if pixels and pixels.is_list else image))[:wanted]


def _read_list(feature: bytes, pixels: Pixels) -> bytes:
    """The pixels that a feature's list of numbers is."""
    values = np.array(parse_list(feature))
    if pixels.dtype == "uint8" and (values.min() < 0 or values.max() > 255):
        message = f"its whole numbers are from {values.min()} to {values.max()}, but are read as "
        raise BadImage(UNSUPPORTED, f"{message}levels from 0 to 255; write others as floats")
    return values.astype(np.dtype(pixels.dtype).newbyteorder("<")).tobytes()


def _read(ref: ImageRef, start: int, size: int) -> bytes:
    assert ref.location is not None
    packing = ref.location.kind.removeprefix(_KIND).lstrip("_")
    if not packing:
        return read_range(ref, start, size)
    return open_packed(ref.location.file, packing, ref.modified_ns).pread(size, start)


def _parse(location: Location) -> tuple[tuple[int, int], Pixels | None]:
    around, *rest = location.inside.split()
    before, after = map(int, around.split("+"))
    if not rest:
        return (before, after), None
    shape = tuple(map(int, rest[1].split("x")))
    return (before, after), Pixels(rest[0], shape, is_list=rest[2:] == [_LIST])
