"""The features of tf.Examples that others wrote, without a copy of any image in them.

`dataset.record` reads our own records, and is strict; here is all that the wire format of protocol
buffers allows: fields in any order, unknown ones, numbers that are packed or not
(https://protobuf.dev/programming-guides/encoding).
"""

import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

Kind = Literal["string", "float", "int"]

# Field numbers of tf.train.Feature: bytes_list, float_list, int64_list.
_KINDS: dict[int, Kind] = {1: "string", 2: "float", 3: "int"}
_FEATURE_LISTS = 2  # the field of tf.SequenceExample that tf.Example has not
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5  # wire types
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_LARGEST = (1 << 64) - 1
_MOST_PARTS = 2**20  # fields of a record: each costs Python about a microsecond and 30 bytes
_NUMBERS_A_PART = 4  # maps of depth and masks are stored as such lists
_MOST_NAME_BYTES = 2**16
_NO_KIND: Kind = "string"  # of a feature without any list, which is empty


class Parts:
    """How many fields and numbers may still be read of a record, which may be of nothing else."""

    def __init__(self, most: int = _MOST_PARTS):
        """Takes how many there may be."""
        self._left = most

    def take(self, count: int = 1) -> None:
        """Counts some more; raises ValueError if they are too many."""
        self._left -= count
        if self._left < 0:
            raise ValueError("it has too many fields or numbers; images are stored as bytes")


class Feature(NamedTuple):
    """One feature: numbers; or of bytes, where each begins and ends."""

    kind: Kind
    values: list[Any]


def parse_example(data: Sequence[int], start: int, end: int) -> dict[str, Feature]:
    """Finds the features of a tf.Example.

    Args:
      data: what holds it: bytes or mapped memory; only what is not an image is touched.
      start: where it begins.
      end: where it ends.

    Returns:
      Each feature by its name; of equal names the last counts, as in any protocol buffer.

    Raises:
      ValueError: if it is not a tf.Example.
    """
    try:
        parts = Parts()
        spans = dict(_list_spans(data, start, end, parts))
        return {name: _parse_feature(data, *span, parts) for name, span in spans.items()}
    except IndexError as error:
        raise ValueError("a number is cut off") from error


def find_feature(data: Any, start: int, end: int, name: str) -> tuple[int, int]:
    """Where a feature of a tf.Example that was parsed begins and ends, see `parse_list`."""
    return dict(_list_spans(data, start, end, Parts()))[name]


def find_bytes(data: bytes, name: str) -> memoryview:
    """The one value of a feature of bytes; raises ValueError if there is none, or several."""
    feature = parse_example(data, 0, len(data)).get(name)
    if feature is None or feature.kind != "string" or len(feature.values) != 1:
        raise ValueError(f"the feature {name!r} is missing, or is not one value of bytes")
    ((start, end),) = feature.values
    return memoryview(data)[start:end]


def parse_list(data: bytes) -> list[Any]:
    """The numbers of a feature."""
    return _parse_feature(data, 0, len(data), Parts()).values


def _list_spans(
    data: Any, start: int, end: int, parts: Parts
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Where each feature begins and ends."""
    for number, wire, at, stop in iterate_fields(data, start, end, parts):
        if number == _FEATURE_LISTS and _is_feature_lists(data, at, stop, parts):
            raise ValueError(
                "it is a tf.SequenceExample, whose images are lists; write a tf.Example for each"
            )
        if number == 1:
            _check_sized(wire)
            for _, wire_of_entry, first, last in iterate_fields(data, at, stop, parts):
                _check_sized(wire_of_entry)
                yield _read_entry(data, first, last, parts)


def _is_feature_lists(data: Any, start: int, end: int, parts: Parts) -> bool:
    """Whether an unknown field is what a tf.SequenceExample has there: entries of a map."""
    try:
        found = {(number, wire) for number, wire, _, _ in iterate_fields(data, start, end, parts)}
    except (ValueError, IndexError):
        return False
    return found == {(1, _SIZED)}


def _read_entry(data: Any, start: int, end: int, parts: Parts) -> tuple[str, tuple[int, int]]:
    name, span = "", (end, end)
    for number, wire, at, stop in iterate_fields(data, start, end, parts):
        _check_sized(wire)
        if number == 1:
            if stop - at > _MOST_NAME_BYTES:
                raise ValueError(f"the name of a feature has {stop - at} bytes")
            name = bytes(data[at:stop]).decode()
        elif number == 2:
            span = at, stop
    return name, span


def _parse_feature(data: Any, start: int, end: int, parts: Parts) -> Feature:
    feature = Feature(_NO_KIND, [])
    for number, wire, at, stop in iterate_fields(data, start, end, parts):
        if number in _KINDS:
            _check_sized(wire)
            kind = _KINDS[number]
            if kind != feature.kind:
                feature = Feature(kind, [])
            feature.values.extend(_parse_values(data, kind, at, stop, parts))
    return feature


def _parse_values(data: Any, kind: Kind, start: int, end: int, parts: Parts) -> Iterator[Any]:
    for number, wire, at, stop in iterate_fields(data, start, end, parts):
        if number != 1:
            continue
        if kind == "string":
            _check_sized(wire)
            yield at, stop
        elif kind == "float":
            if (stop - at) % 4:
                raise ValueError("a list of floats is cut off")
            parts.take((stop - at) // (4 * _NUMBERS_A_PART))
            yield from struct.unpack(f"<{(stop - at) // 4}f", data[at:stop])
        else:
            for count in itertools.count():
                if at >= stop:
                    break
                parts.take(count % _NUMBERS_A_PART == 0)
                value, at = read_varint(data, at)
                yield value - (1 << 64) if value >> 63 else value


def iterate_fields(
    data: Any, at: int, end: int, parts: Parts
) -> Iterator[tuple[int, int, int, int]]:
    """Each field's number and wire type, and where its content begins and ends."""
    while at < end:
        parts.take()
        tag, at = read_varint(data, at)
        wire = tag & 7
        if wire == _SIZED:
            length, at = read_varint(data, at)
            stop = at + length
        elif wire == _VARINT:
            _, stop = read_varint(data, at)
        elif wire in _WIDTHS:
            stop = at + _WIDTHS[wire]
        else:
            raise ValueError(f"a field has the unknown wire type {wire}")
        if stop > end:
            raise ValueError("a field is cut off")
        yield tag >> 3, wire, at, stop
        at = stop


def read_varint(data: Any, at: int) -> tuple[int, int]:
    """A base-128 varint, and the position after it."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while shift < 70:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _LARGEST, at + 1
        shift += 7
    raise ValueError("a number has no end")


def _check_sized(wire: int) -> None:
    if wire != _SIZED:
        raise ValueError("a field is of an unexpected kind")
