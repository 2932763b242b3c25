"""The rows of TFRecords of tf.Examples: each feature is a column, and images stay where they are.

The usual keys are those of TensorFlow's Model Garden, see `dataset.record`, which are our own.
"""

import collections
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.dataset import paths, record
from image_pipeline.components.dataset.examples import Feature, find_feature, parse_example
from image_pipeline.components.images.kind import HEAD_BYTES, tell_kind
from image_pipeline.components.labels.box_cells import BOXES, FORMAT, IDS, SIZE, StatedBoxes
from image_pipeline.components.record_files.tfds import NO_NAME, Described, describe
from image_pipeline.components.record_files.tfrecord_frames import (
    Frame,
    check_data,
    find_packing,
    list_frames,
)
from image_pipeline.components.record_files.tfrecord_images import (
    Pixels,
    Shape,
    find_list,
    find_pixels,
    make_location,
    read_image,
)
from image_pipeline.components.sources.column_types import Items
from image_pipeline.components.sources.file_names import (
    TFRECORD_PREFIX,
    WILD,
    Files,
    is_folder,
)
from image_pipeline.components.sources.rows import (
    BOX_COLUMN,
    EmbeddedImage,
    Row,
    Unusable,
    explain_misfit,
    is_text,
)
from image_pipeline.components.sources.source_kinds import (
    Asked,
    SourceKind,
    kind_of,
    list_files,
    read_rows,
)

# The records of a file by which the features with images are recognised.
_LOOKED_AT = 16
# No image file is smaller: the smallest are GIFs of 35 bytes.
_LEAST_BYTES = 32
_SIDES = [column.key for column in record.BOX_COLUMNS[:4]]  # xmin, xmax, ymin, ymax
_OF_OBJECTS = "image/object/"  # what such features have is one an object, not an image
_LABEL_OF_BOX = "image/object/bbox/label"  # as the Model Garden's ImageNet has it
_OF_BOXES = {_LABEL_OF_BOX, *(column.key for column in record.BOX_COLUMNS)}
_ALWAYS_LISTS = (record.TAGS,)
_KINDS = ("image", "mask", "array")  # what features of bytes are that are not text
_MOST_TEXT_BYTES = 2**24  # of a feature
_MOST_BESIDE_BYTES = 2**26  # of a record but for its image; read with it, for the checksum
_SEVERAL = "it holds {} images, and a record may have one; write a record for each"
_BESIDE = f"its record has {{:,}} bytes beside it, more than {_MOST_BESIDE_BYTES:,}"
_OPAQUE = (
    "its {} bytes are neither text nor the file of an image; pixels are read if they are [height, "
    "width, channels] by tf.io.serialize_tensor, if features height, width and channels are beside "
    "them, or if ingest.pixel_shape is theirs"
)


def read_examples(path: str, columns: Asked, pixel_shape: Shape = ()) -> Iterator[Row]:
    """Reads a file's records; one that is damaged is a row with a problem.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if its store refuses it or does not answer.
    """
    modified_ns = files.stat_file(path)[1]
    reader = _Reader(path, modified_ns, pixel_shape)
    reader.look_at(itertools.islice(list_frames(path), _LOOKED_AT))
    yield from map(reader.read, list_frames(path))


class _Reader:
    """Makes rows of a file's records."""

    def __init__(self, path: str, modified_ns: int, pixel_shape: Shape):
        """Takes the file, when it was changed, and the shape of images that are values alone."""
        self._path, self._modified_ns, self._shape = path, modified_ns, pixel_shape
        self._packing = find_packing(path)
        self._described: Described = describe(path)
        self._images: set[str] = set()
        self._masks: set[str] = set()  # of these: pixels, which come after files of images
        self._opaque: set[str] = set()
        self._shapes: set[tuple] = set()

    def look_at(self, frames: Iterable[Frame]) -> None:
        """Notes which features are images in any of these records, or else arrays.

        Beside files of images, arrays of whole numbers are images, too: masks.
        """
        kinds: dict[str, set[str]] = collections.defaultdict(set)
        for frame in frames:
            features = self._parse(frame)
            for name, feature in features.items():
                if feature.kind == "string" and any(end > at for at, end in feature.values):
                    kinds[name].add(_kind_of(name, features, frame.buffer, self._shape))
                elif pixels := find_list(feature, self._shape) if self._shape else None:
                    kinds[name].add(_kind_of_pixels(pixels))
        found = {kind: {name for name in kinds if kind in kinds[name]} for kind in _KINDS}
        self._masks = found["mask"]
        self._images = found["image"] or found["array"]
        self._images |= self._masks | (found["array"] if self._shape else set())
        self._opaque = {n for n, each in kinds.items() if "text" not in each} - self._images

    def read(self, frame: Frame) -> Row:
        """One record."""
        if frame.problem is not None:
            return Row(frame.number, {}, frame.problem)
        try:
            features = parse_example(frame.buffer, frame.at, frame.at + frame.length)
        except ValueError as error:
            damaged = "its data or the data's checksum is damaged"
            problem = f"it is not a tf.Example ({error})" if check_data(frame) else damaged
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
        for name in sorted(features, key=lambda name: (name in self._masks, name)):
            feature = features[name]
            if name in self._images and feature.kind == "string":
                is_one = len(feature.values) == 1 and not name.startswith(_OF_OBJECTS)
                count = len(feature.values)
                several = Unusable(_SEVERAL.format(count), is_images=True) if count else None
                cells[name] = self._hold(features, feature, frame) if is_one else several
            elif name in self._images and self._shape:
                cells[name] = self._hold_list(name, feature, frame)
            elif feature.kind == "string" and (
                name in self._opaque or _count_bytes(feature) > _MOST_TEXT_BYTES
            ):
                size = _count_bytes(feature)
                opaque = Unusable(_OPAQUE.format(size), size_bytes=size)
                cells[name] = opaque if size else None
            elif feature.kind == "string":
                texts = [os.fsdecode(bytes(frame.buffer[at:end])) for at, end in feature.values]
                cells[name] = texts if name in _ALWAYS_LISTS else Items(texts, "string")
            else:
                cells[name] = Items(feature.values, feature.kind)
        return self._described.name_values(_join_boxes(cells))

    def _hold(
        self, features: Mapping[str, Feature], feature: Feature, frame: Frame
    ) -> EmbeddedImage | Unusable | None:
        """The image where it is; None for nothing."""
        if not _size_of(feature):
            return None
        ((at, end),) = feature.values
        pixels, header_bytes = None, 0
        is_file = tell_kind(_head_of(feature, frame.buffer)).group == "image"
        if not is_file and (found := find_pixels(features, feature, frame.buffer, self._shape)):
            at, end, pixels = found
            header_bytes = len(pixels.header)
        elif not is_file and self._shape:
            return Unusable(explain_misfit(f"{end - at:,} bytes", self._shape), True)
        return self._locate(frame, at, end, pixels, end - at + header_bytes)

    def _hold_list(
        self, name: str, feature: Feature, frame: Frame
    ) -> EmbeddedImage | Unusable | None:
        """The image that a list of numbers is."""
        if not feature.values:
            return None
        pixels = find_list(feature, self._shape)
        if pixels is None:
            values = f"{len(feature.values):,} values"
            return Unusable(explain_misfit(values, self._shape), is_images=True)
        at, end = find_feature(frame.buffer, frame.at, frame.at + frame.length, name)
        return self._locate(frame, at, end, pixels, len(pixels.header) + pixels.size_bytes)

    def _locate(
        self, frame: Frame, at: int, end: int, pixels: Pixels | None, size_bytes: int
    ) -> EmbeddedImage | Unusable:
        """What is between two places of a record's buffer."""
        around = (at - frame.at, frame.at + frame.length - end)
        if sum(around) > _MOST_BESIDE_BYTES:
            return Unusable(_BESIDE.format(sum(around)))
        start = frame.start + around[0]
        location = make_location(self._path, self._packing, start, end - at, around, pixels)
        return EmbeddedImage(location, size_bytes, self._modified_ns)


def _size_of(feature: Feature) -> int:
    """Of the first value of bytes."""
    return feature.values[0][1] - feature.values[0][0] if feature.values else 0


def _count_bytes(feature: Feature) -> int:
    """Of all its values."""
    return sum(end - at for at, end in feature.values)


def _head_of(feature: Feature, buffer: Any) -> bytes:
    at, end = feature.values[0]
    return bytes(buffer[at : min(end, at + HEAD_BYTES)])


def _kind_of_pixels(pixels: Pixels) -> str:
    return "mask" if pixels.dtype.startswith("uint") else "array"


def _kind_of(name: str, features: Mapping[str, Feature], buffer: Any, shape: Shape) -> str:
    """What a feature of bytes is, of `_KINDS`, or text; by its first value if it has several."""
    feature = features[name]
    kind = tell_kind(_head_of(feature, buffer)).group
    is_file = _size_of(feature) >= _LEAST_BYTES and kind in ("image", "unsupported_image")
    if name == record.IMAGE or is_file:
        return "image"
    if len(feature.values) == 1 and (found := find_pixels(features, feature, buffer, shape)):
        return _kind_of_pixels(found.pixels)
    if _count_bytes(feature) > _MOST_TEXT_BYTES:
        return "opaque"
    return "text" if any(is_text(bytes(buffer[a:b])) for a, b in feature.values) else "opaque"


def _join_boxes(cells: dict[str, Any]) -> dict[str, Any]:
    """The cells with those of boxes as one."""
    if not all(name in cells for name in _SIDES):
        return cells
    columns = [cells[name] for name in _SIDES]
    named = (cells.get(key) for key in (record.BOX_TEXT.key, record.BOX_LABEL.key, _LABEL_OF_BOX))
    names = next(filter(None, named), [NO_NAME] * len(columns[0]))
    crowds = cells.get(record.BOX_CROWD.key) or [0] * len(names)
    if len({len(each) for each in (*columns, names, crowds)}) > 1:
        joined: Any = "boxes whose sides, classes and crowds differ in number"
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


def _list_files(images: str) -> Files:
    """TFRecords by their names, or whatever is called so; of a data set those that it lists."""
    if not images.startswith(TFRECORD_PREFIX):
        return list_files(images)
    path = images.removeprefix(TFRECORD_PREFIX)
    if is_folder(path) and (kind := kind_of(path)).is_table:
        found = kind.files(path)
    elif is_folder(path):
        inside = [each for each in files.list_files(path, "*") if os.path.isfile(each)]
        found = [(each, None) for each in inside] or _list_shards(path)
    else:
        is_remote_folder = not (files.is_local(path) or WILD.search(path) or files.is_file(path))
        found = (is_remote_folder and _list_shards(path)) or list_files(path)
    return [(f"{TFRECORD_PREFIX}{each}", split) for each, split in found]


def _list_shards(folder: str) -> Files:
    found = files.list_files(folder, paths.in_split("*"))
    return [
        (path, paths.parse_split(path))
        for path in found
        if not files.is_local(path) or os.path.isfile(path)
    ]


TFRECORD = SourceKind(
    name="TFRecords",
    prefix=TFRECORD_PREFIX,
    endings=(".tfrecord",),
    fills_folders=True,
    files=_list_files,
    rows=read_examples,
    takes_shape=True,
    locations=dict.fromkeys(("record", "record_gzip", "record_zlib"), read_image),
)
INGESTED = SourceKind(
    name="a data set that was ingested",
    recognise=lambda images: (
        os.path.isfile(files.join(images, paths.MANIFEST)) and bool(_list_shards(images))
    ),
    files=_list_shards,
    rows=read_rows,
)
