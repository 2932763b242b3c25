"""What a record is: every feature key, its dtype and shape. Keys are spelled out here only.

The keys are those of the TensorFlow Model Garden's tf.Example image formats
(https://github.com/tensorflow/models/tree/master/official/vision/data), so that its parsers and
other tools read these records unchanged.

A record is a mapping from feature key to values, described by a sequence of `Column`s. Masks,
boxes, several labels and a user's own columns are further `Column`s; nothing below depends on
their number.
"""

import dataclasses
import functools
import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest

IMAGE = "image/encoded"
FORMAT = "image/format"
HEIGHT = "image/height"
WIDTH = "image/width"
CHANNELS = "image/channels"
COLORSPACE = "image/colorspace"
FILENAME = "image/filename"
SOURCE_ID = "image/source_id"
SHA256 = "image/key/sha256"
LABEL = "image/class/text"
LABEL_ID = "image/class/label"  # the class's number, only with `ingest.class_ids`
# What an image is instead of one class. The Model Garden's multi-label classification reads a list
# of class ids, which nobody knows before the analysis, and `image/class/text` is one name to all
# parsers: so both have keys of their own.
TAGS = "image/tags"  # any number of names
VALUE = "image/value"  # a number

MASK = "image/segmentation/class/encoded"
MASK_FORMAT = "image/segmentation/class/format"

IGNORED = 255
"""The id of a mask's pixels that no class is asked of, as in Pascal VOC and Cityscapes."""
RAW = b"raw"  # the format of an image that is stored as pixels

PixelType = Literal["uint8", "uint16", "float16", "float32"]
# The formats of images that are stored as pixels, by the type of their values; the lowest byte is
# the first. A reader that knows 8-bit pixels only does not take the others for such.
RAW_FORMATS: dict[bytes, PixelType] = {
    RAW: "uint8",
    b"raw_uint16": "uint16",
    b"raw_float16": "float16",
    b"raw_float32": "float32",
}

Dtype = Literal["bytes", "int64", "float32"]
Value = bytes | int | float | Sequence[bytes] | Sequence[int] | Sequence[float]


@dataclasses.dataclass(frozen=True)
class Column:
    """One feature of a record.

    Attributes:
      key: the feature's name in tf.train.Example.
      dtype: "bytes", "int64" or "float32", the three kinds that tf.train.Example knows.
      is_list: False for exactly one value per record, True for any number.
    """

    key: str
    dtype: Dtype
    is_list: bool = False


IMAGE_COLUMN = Column(IMAGE, "bytes")

METADATA_COLUMNS = (
    Column(
        FORMAT, "bytes"
    ),  # b"jpeg", b"png", or one of `RAW_FORMATS` (row-major [height, width, channels])
    Column(HEIGHT, "int64"),  # of the stored image, in pixels
    Column(WIDTH, "int64"),
    Column(CHANNELS, "int64"),
    Column(COLORSPACE, "bytes"),  # b"RGB" for 3 channels, b"GRAY" for 1, else b"OTHER"
    Column(FILENAME, "bytes"),  # the source's path relative to the images folder
    Column(SOURCE_ID, "bytes"),  # the record id, 32 hexadecimal digits: unique within a data set
    Column(SHA256, "bytes"),  # of the source's bytes, 64 hexadecimal digits
    Column(LABEL, "bytes"),  # the class's name
)

COLUMNS = (*METADATA_COLUMNS, IMAGE_COLUMN)

CLASS_ID_COLUMN = Column(LABEL_ID, "int64")
"""What records that number their class have, too; see `Manifest.class_names`."""

# The further columns of labels that are not classes, by the type of a table's column of labels.
LABEL_COLUMNS = {
    "strings": Column(TAGS, "bytes", is_list=True),
    "float": Column(VALUE, "float32"),
}

BOX_XMIN, BOX_XMAX, BOX_YMIN, BOX_YMAX = (
    Column(f"image/object/bbox/{side}", "float32", is_list=True)
    for side in ("xmin", "xmax", "ymin", "ymax")
)
BOX_TEXT = Column("image/object/class/text", "bytes", is_list=True)
BOX_LABEL = Column("image/object/class/label", "int64", is_list=True)
BOX_AREA = Column("image/object/area", "float32", is_list=True)
BOX_CROWD = Column("image/object/is_crowd", "int64", is_list=True)
BOX_COLUMNS = (
    BOX_XMIN,  # sides as shares of the stored image's width or height
    BOX_XMAX,
    BOX_YMIN,
    BOX_YMAX,
    BOX_TEXT,
    BOX_LABEL,  # from 1 on: the Model Garden's 0 is the background
    BOX_AREA,  # in pixels of the stored image
    BOX_CROWD,  # 1 for a box around several objects (COCO's iscrowd)
)
"""What the records of images with boxes have, too: a value for each box."""

MASK_COLUMN = Column(MASK, "bytes")  # a gray PNG of class ids, of the stored image's size
MASK_COLUMNS = (Column(MASK_FORMAT, "bytes"), MASK_COLUMN)
"""What the records of images with masks have, too."""

ColumnType = Literal["int", "float", "string", "ints", "floats", "strings", "boxes"]
"""What a table's column can be; the last four are lists."""
_DTYPES: dict[str, Dtype] = {"int": "int64", "float": "float32", "string": "bytes"}


def order_names(types: Mapping[str, ColumnType]) -> list[str]:
    """The names of a table's further columns in the order of their features: boxes are last."""
    return sorted(types, key=lambda name: (types[name] == "boxes", name))


def further_columns(types: Mapping[str, ColumnType]) -> tuple[Column, ...]:
    """The features that a table's further columns are, in the order of `order_names`."""
    return tuple(
        column
        for name in order_names(types)
        if (name, types[name]) != ("label", "string")
        for column in _features(name, types[name])
    )


def _features(name: str, type_: ColumnType) -> tuple[Column, ...]:
    if type_ == "boxes":
        return BOX_COLUMNS
    if name == "label":
        return (LABEL_COLUMNS[type_],)
    return (Column(name, _DTYPES[type_.removesuffix("s")], type_.endswith("s")),)


def label_column(further: Sequence[Column]) -> Column | None:
    """Which of these further columns says what an image is; None if it is the class's name."""
    return next((column for column in further if column in LABEL_COLUMNS.values()), None)


def all_columns(
    further: Sequence[Column], has_masks: bool = False, has_class_ids: bool = False
) -> tuple[Column, ...]:
    """All columns of records that have these further ones; the image stays the last."""
    ids = (CLASS_ID_COLUMN,) if has_class_ids else ()
    masks = MASK_COLUMNS if has_masks else ()
    return (*METADATA_COLUMNS, *ids, *further, *masks, IMAGE_COLUMN)


def further_of(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Those of `all_columns` that a table gave, in their order."""
    own = (*COLUMNS, CLASS_ID_COLUMN, *MASK_COLUMNS)
    return tuple(column for column in columns if column not in own)


def encode_example(values: Mapping[str, Value], columns: Sequence[Column] = COLUMNS) -> bytes:
    """Serializes one record as a tf.train.Example, its features in the order of `columns`.

    The protocol-buffer wire format is written here, not by TensorFlow, for three reasons: the bytes
    are the same on every machine (map fields have no fixed order in protobuf), ingest need not
    import TensorFlow, and the last column's payload ends where the record ends, so a reader that
    knows its length finds it without parsing.

    Args:
      values: feature key to value (or values, for list columns); exactly the keys of `columns`.
      columns: the record's columns.

    Raises:
      KeyError: if `values` and `columns` do not name the same keys.
    """
    if values.keys() != {column.key for column in columns}:
        wrong = sorted(values.keys() ^ {column.key for column in columns})
        raise KeyError(f"values and columns must name the same features; only one has {wrong}.")
    entries = []
    for column in columns:
        value: Any = values[column.key]
        items = value if column.is_list else [value]
        # A tf.train.Feature: its bytes_list is field 1, float_list 2, int64_list 3.
        if column.dtype == "bytes":
            feature = _field(1, b"".join([_field(1, item) for item in items]))
        elif column.dtype == "float32":
            feature = _field(2, _field(1, struct.pack(f"<{len(items)}f", *items)))
        else:
            feature = _field(3, _field(1, b"".join(map(_varint, items))))
        entries.append(_field(1, _key_field(column.key) + _field(2, feature)))
    return _field(1, b"".join(entries))


def decode_example(data: bytes, columns: Sequence[Column] = COLUMNS) -> dict[str, Any]:
    """Reads what `encode_example` wrote: its inverse, and as strict.

    Returns:
      Feature key to value (a list of values for list columns), in the record's order.

    Raises:
      ValueError: if the data is not such a record, or holds other features than `columns`.
    """
    by_key = {column.key: column for column in columns}
    values: dict[str, Any] = {}
    for features in _read_fields(memoryview(data), 1):
        for entry in _read_fields(features, 1):
            key, feature = _read_fields(entry, 1, 2)
            name = bytes(key).decode()
            if name not in by_key or name in values:
                raise ValueError(f"the feature {name!r} is not expected, or occurs twice")
            values[name] = _read_feature(by_key[name], feature)
    if missing := sorted(by_key.keys() - values.keys()):
        raise ValueError(f"the features {missing} are missing")
    return values


def read_source_id(data: bytes) -> str:
    """The id of a record, whatever further columns it has; raises ValueError if it has none."""
    return read_feature(data, Column(SOURCE_ID, "bytes")).decode()


def read_sha256(data: bytes) -> str:
    """The SHA-256 of the bytes of a record's source; raises ValueError if it has none."""
    return read_feature(data, Column(SHA256, "bytes")).decode()


def read_feature(data: bytes, column: Column) -> Any:
    """One feature of a record, whatever others it has; raises ValueError if it has it not."""
    return read_features(data, [column])[column.key]


def read_features(data: bytes, columns: Sequence[Column]) -> dict[str, Any]:
    """Some features of a record by their keys; a list that it lacks is empty.

    Raises:
      ValueError: if the data is not a record, or lacks a feature that is not a list.
    """
    wanted = {column.key.encode(): column for column in columns}
    found: dict[str, Any] = {column.key: [] for column in columns if column.is_list}
    for features in _read_fields(memoryview(data), 1):
        for entry in _read_fields(features, 1):
            key, feature = _read_fields(entry, 1, 2)
            if (column := wanted.get(bytes(key))) is not None:
                found[column.key] = _read_feature(column, feature)
    if missing := [column.key for column in columns if column.key not in found]:
        raise ValueError(f"the feature {missing[0]!r} is missing")
    return found


def name_raw(dtype: PixelType) -> bytes:
    """The format of an image that is stored as pixels of a type."""
    return next(name for name, known in RAW_FORMATS.items() if known == dtype)


def make_record_id(content: bytes, path: bytes) -> bytes:
    """16 bytes that name a record: equal files at two paths are two records.

    Args:
      content: SHA-256 of the source's bytes.
      path: of the source, below the images folder.
    """
    return hashlib.sha256(content + path).digest()[:16]


@functools.cache
def _key_field(key: str) -> bytes:
    return _field(1, key.encode())


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field: tag (number, wire type 2), length, payload."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


_ONE_BYTE = tuple(bytes([value]) for value in range(0x80))


def _varint(value: int) -> bytes:
    """Base-128 varint; negative numbers as 64-bit two's complement, as protobuf writes int64."""
    if 0 <= value < 0x80:  # Most are tags, or lengths of short values.
        return _ONE_BYTE[value]
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _read_feature(column: Column, feature: memoryview) -> Any:
    """Reads a tf.train.Feature of the column's kind."""
    (items_field,) = _read_fields(feature, {"bytes": 1, "float32": 2, "int64": 3}[column.dtype])
    parts = _read_fields(items_field, 1)
    items: Sequence[Any]
    if column.dtype == "bytes":
        items = [bytes(part) for part in parts]
    elif column.dtype == "float32":
        items = [item for part in parts for (item,) in struct.iter_unpack("<f", part)]
    else:
        items = []
        for part in parts:
            position = 0
            while position < len(part):
                number, position = _read_varint(part, position)
                items.append(number - (1 << 64) if number >> 63 else number)
    if column.is_list:
        return items
    (item,) = items
    return item


def _read_fields(data: memoryview, *numbers: int) -> list[memoryview]:
    """Reads length-delimited fields; `numbers` are those that may occur."""
    fields, position, end = [], 0, len(data)
    while position < end:
        tag, position = _read_varint(data, position)
        length, start = _read_varint(data, position)
        position = start + length
        if tag & 7 != 2 or tag >> 3 not in numbers or position > end:
            raise ValueError("a field is of an unexpected kind, or cut off")
        fields.append(data[start:position])
    return fields


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Reads a base-128 varint; returns it and the position after it."""
    value = shift = 0
    for byte in data[position:]:
        position += 1
        if byte < 0x80:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
        shift += 7
    raise ValueError("a number is cut off")


# What a record says about its image in one value. The label is an input of its own, and the
# encoded image would be copied a second time beside its pixels.
EXTRA_COLUMNS = tuple(
    column
    for column in record.METADATA_COLUMNS
    if column.key != record.LABEL and not column.is_list
)


def choose_columns(
    option: str, keys: Sequence[str], further: Sequence[record.Column], with_lists: bool = False
) -> tuple[record.Column, ...]:
    """Finds columns by their keys.

    Args:
      option: the option that names them.
      keys: their feature keys.
      further: the further columns of the data set, as a table had them.
      with_lists: whether lists may be named.

    Raises:
      UserError: if there is no such column, or it is a list and may not be one.
    """
    label = record.label_column(further)
    usable = [c for c in (*EXTRA_COLUMNS, *further) if c != label]
    known = {c.key: c for c in usable if with_lists or not c.is_list}
    kind = "columns" if with_lists else "columns of one value"
    for key in keys:
        if key not in known:
            raise UserError(
                f"{option} names {key!r}, but the data set's {kind} are "
                f"{', '.join(known)}; {suggest(key, known) or 'name one of those.'}".rstrip()
            )
    return tuple(known[key] for key in keys)
