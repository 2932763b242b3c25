"""Pixels in tf.Examples that are no file of an image: a tensor's, or bytes beside their shape."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from image_pipeline.components.dataset import record
from image_pipeline.components.record_files.examples import (
    Feature,
    Parts,
    iterate_fields,
    read_varint,
)
from image_pipeline.components.record_files.tfrecord_places import Pixels

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
# Of tensorflow/core/framework/types.proto; others are no pixels.
_TENSOR_DTYPES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8"}
_TENSOR_DTYPES |= {9: "int64", 17: "uint16", 19: "float16", 22: "uint32", 23: "uint64"}
# Fields of tensorflow/core/framework/tensor.proto; and of TensorShapeProto and its Dim.
_DTYPE, _SHAPE, _CONTENT = 1, 2, 4
_DIM, _SIZE = 2, 1
_MOST_PARTS = 64  # of a picture's tensor; what has more is another's bytes


class Found(NamedTuple):
    """Where pixels begin and end in a record's buffer, and what they are."""

    at: int
    end: int
    pixels: Pixels


def find_pixels(features: Mapping[str, Feature], feature: Feature, buffer: Any) -> Found | None:
    """The array that a feature's only value is, by itself or by what else the record says.

    Args:
      features: all of the record.
      feature: one of bytes.
      buffer: what the record is in.
    """
    ((at, end),) = feature.values
    return find_tensor(buffer, at, end) or _find_bare(features, at, end, buffer)


def find_tensor(buffer: Any, start: int, end: int) -> Found | None:
    """The picture in what `tf.io.serialize_tensor` writes; None if it is of no such form."""
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


def _find_bare(features: Mapping[str, Feature], at: int, end: int, buffer: Any) -> Found | None:
    """Pixels without anything around them, if they are as many as a shape beside them says."""
    dtype = "uint8"
    if record.FORMAT in features and (values := features[record.FORMAT].values):
        is_text = features[record.FORMAT].kind == "string"
        format_ = bytes(buffer[slice(*values[0])]) if is_text else b""
        dtype = _DTYPES.get(format_, dtype)
    shapes = [_shape_of(features, names) for names in _SIDES]
    shapes += [tuple(f.values) for n in _SHAPES if (f := features.get(n)) and f.kind == "int"]
    fits = (_fit(Pixels(dtype, shape), at, end) for shape in shapes if len(shape) in (2, 3))
    return next(filter(None, fits), None)


def _shape_of(features: Mapping[str, Feature], names: tuple[str, str, str]) -> tuple[int, ...]:
    """Of sides that are features each; without that of channels, height and width."""
    height, width, channels = (_number(features.get(name)) for name in names)
    sides = (height, width, channels) if channels else (height, width)
    return sides if height and width else ()


def _number(feature: Feature | None) -> int:
    is_one = feature is not None and feature.kind == "int" and len(feature.values) == 1
    return feature.values[0] if is_one and feature and feature.values[0] > 0 else 0


def _fit(pixels: Pixels, at: int, end: int) -> Found | None:
    is_right = min(pixels.shape) > 0 and pixels.size_bytes == end - at
    return Found(at, end, pixels) if is_right else None
