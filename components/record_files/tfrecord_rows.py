"""The rows of TFRecords of tf.Examples: each feature is a column, and images stay where they are.

The usual keys are those of TensorFlow's Model Garden, see `dataset.record`, which are our own.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.images.kind import HEAD_BYTES, tell_kind
from image_pipeline.components.record_files.examples import Feature, parse_example
from image_pipeline.components.record_files.tfds import Described, describe
from image_pipeline.components.record_files.tfrecord_frames import (
    Frame,
    check_data,
    find_packing,
    list_frames,
)
from image_pipeline.components.record_files.tfrecord_places import Pixels, make_place
from image_pipeline.components.sources.box_cells import BOXES, FORMAT, IDS, SIZE, StatedBoxes
from image_pipeline.components.sources.column_types import Items
from image_pipeline.components.sources.held import HeldImage
from image_pipeline.components.sources.rows import BOX_COLUMN, Row

# The records of a file by which it is told what of them are images.
_LOOKED_AT = 16
# No image file is smaller: the smallest are GIFs of 35 bytes.
_LEAST_BYTES = 32
_SIDES = [column.key for column in record.BOX_COLUMNS[:4]]  # xmin, xmax, ymin, ymax
_OF_BOXES = {column.key for column in record.BOX_COLUMNS}
# By `image/format`, of arrays that are stored as their bytes; the lowest byte is the first.
_DTYPES = {b"raw_uint16": "uint16", b"raw_float16": "float16", b"raw_float32": "float32"}
_ALWAYS_LISTS = (record.TAGS,)
# What says the sides of arrays that are stored as their bytes, the first that there are.
_SHAPES = (
    (record.HEIGHT, record.WIDTH, record.CHANNELS),
    ("height", "width", "channels"),
    ("height", "width", "depth"),
)


def read_examples(path: str) -> Iterator[Row]:
    """Reads a file's records; one that is damaged is a row with a problem.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if its store refuses it or does not answer.
    """
    modified_ns = files.stat_file(path)[1]
    reader = _Reader(path, modified_ns)
    reader.look_at(itertools.islice(list_frames(path), _LOOKED_AT))
    yield from map(reader.read, list_frames(path))


class _Reader:
    """Makes rows of a file's records."""

    def __init__(self, path: str, modified_ns: int):
        """Takes the file, and when it was changed."""
        self._path, self._modified_ns = path, modified_ns
        self._packing = find_packing(path)
        self._described: Described = describe(path)
        self._images: set[str] = set()
        self._shapes: set[tuple] = set()

    def look_at(self, frames: Iterable[Frame]) -> None:
        """Notes which features are images in any of these records, or else arrays."""
        arrays = set()
        for frame in frames:
            features = self._parse(frame)
            for name, feature in features.items():
                if feature.kind != "string" or len(feature.values) != 1:
                    continue
                size = _size_of(feature)
                if _is_image(name, _head_of(feature, frame.buffer), size):
                    self._images.add(name)
                elif _find_pixels(features, size, frame.buffer):
                    arrays.add(name)
        self._images = self._images or arrays

    def read(self, frame: Frame) -> Row:
        """One record."""
        if frame.problem is not None:
            return Row(frame.number, {}, frame.problem)
        try:
            features = parse_example(frame.buffer, frame.at, frame.at + frame.length)
        except ValueError as error:
            damaged = "its data or the data's checksum is damaged"
            problem = f"it is no tf.Example ({error})" if check_data(frame) else damaged
            return Row(frame.number, {}, problem)
        # The checksum of a record is looked at with its image, but one that is unlike the others
        # must not make up a column.
        shape = tuple(sorted((name, feature.kind) for name, feature in features.items()))
        if shape not in self._shapes:
            if not check_data(frame):
                return Row(frame.number, {}, "its data or the data's checksum is damaged")
            self._shapes.add(shape)
        return Row(frame.number, self._make_cells(features, frame))

    def _parse(self, frame: Frame) -> dict[str, Feature]:
        try:
            is_whole = frame.problem is None
            end = frame.at + frame.length
            return parse_example(frame.buffer, frame.at, end) if is_whole else {}
        except ValueError:
            return {}

    def _make_cells(self, features: Mapping[str, Feature], frame: Frame) -> dict[str, Any]:
        cells: dict[str, Any] = {}
        for name in sorted(features):
            feature = features[name]
            if name in self._images and feature.kind == "string":
                cells[name] = self._hold(features, feature, frame)
            elif feature.kind == "string":
                texts = [os.fsdecode(bytes(frame.buffer[at:end])) for at, end in feature.values]
                cells[name] = texts if name in _ALWAYS_LISTS else Items(texts, "string")
            else:
                cells[name] = Items(feature.values, feature.kind)
        return self._described.name_values(_join_boxes(cells))

    def _hold(
        self, features: Mapping[str, Feature], feature: Feature, frame: Frame
    ) -> HeldImage | None:
        """The image where it is; None for nothing, and the first of several."""
        if not (length := _size_of(feature)):
            return None
        at = feature.values[0][0]
        around = (at - frame.at, frame.length - (at - frame.at) - length)
        pixels = None
        if tell_kind(_head_of(feature, frame.buffer)).group != "image":
            pixels = _find_pixels(features, length, frame.buffer)
        start = frame.start + around[0]
        place = make_place(self._path, self._packing, start, length, around, pixels)
        size = length + (len(pixels.header) if pixels else 0)
        return HeldImage(place, size, self._modified_ns)


def _size_of(feature: Feature) -> int:
    """Of the first value of bytes."""
    return feature.values[0][1] - feature.values[0][0] if feature.values else 0


def _head_of(feature: Feature, buffer: Any) -> bytes:
    at, end = feature.values[0]
    return bytes(buffer[at : min(end, at + HEAD_BYTES)])


def _is_image(name: str, head: bytes, size: int) -> bool:
    return name == record.IMAGE or (
        size >= _LEAST_BYTES and tell_kind(head).group in ("image", "unsupported_image")
    )


def _find_pixels(features: Mapping[str, Feature], size: int, buffer: Any) -> Pixels | None:
    """The array that so many bytes are, by what else the record says; None if by nothing."""
    dtype = "uint8"
    if record.FORMAT in features and (values := features[record.FORMAT].values):
        is_text = features[record.FORMAT].kind == "string"
        format_ = bytes(buffer[slice(*values[0])]) if is_text else b""
        dtype = _DTYPES.get(format_, dtype)
    for names in _SHAPES:
        sides = [_number(features.get(name)) for name in names]
        height, width, channels = sides
        if height and width:
            pixels = Pixels(dtype, (height, width, channels) if channels else (height, width))
            if pixels.size_bytes == size:
                return pixels
    return None


def _number(feature: Feature | None) -> int:
    is_one = feature is not None and feature.kind == "int" and len(feature.values) == 1
    return feature.values[0] if is_one and feature and feature.values[0] > 0 else 0


def _join_boxes(cells: dict[str, Any]) -> dict[str, Any]:
    """The cells with those of boxes as one."""
    if not all(name in cells for name in _SIDES):
        return cells
    names = cells.get(record.BOX_TEXT.key) or cells.get(record.BOX_LABEL.key) or []
    crowds = cells.get(record.BOX_CROWD.key) or [0] * len(names)
    columns = [cells[name] for name in _SIDES]
    if len({len(each) for each in (*columns, names, crowds)}) > 1:
        joined: Any = "boxes whose sides, classes and crowds are not as many as each other"
    else:
        boxes = [
            {"bbox": [xmin, ymin, xmax, ymax], "category": name, "iscrowd": crowd}
            for xmin, xmax, ymin, ymax, name, crowd in zip(*columns, names, crowds, strict=True)
        ]
        ids = dict(zip(names, cells.get(record.BOX_LABEL.key, ()), strict=False))
        stated = {SIZE: [], BOXES: boxes, FORMAT: "rel_xyxy", IDS: ids}
        joined = StatedBoxes(stated)
    kept = {name: cell for name, cell in cells.items() if name not in _OF_BOXES}
    return kept | {BOX_COLUMN: joined}
