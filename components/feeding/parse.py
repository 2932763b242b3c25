"""From a serialized record to an image and tags: parsing and decoding inside TensorFlow graphs."""

import functools
from collections.abc import Mapping, Sequence

import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding.found_columns import name_length
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions

Tensors = dict[str, tf.Tensor]


_DTYPES = {"bytes": tf.string, "int64": tf.int64, "float32": tf.float32}
_COLUMN_OF_KEY = {column.key: column for column in record.COLUMNS}

# What it takes to decode an image. Nothing else is parsed, and so nothing else is copied.
IMAGE_COLUMNS = tuple(
    _COLUMN_OF_KEY[key]
    for key in (record.IMAGE, record.FORMAT, record.HEIGHT, record.WIDTH, record.CHANNELS)
)
_SHAPE_KEYS = (record.HEIGHT, record.WIDTH, record.CHANNELS)
LABEL_COLUMN = _COLUMN_OF_KEY[record.LABEL]


def columns_of(keys: Sequence[str]) -> list[record.Column]:
    """The columns of some feature keys that every record has."""
    return [_COLUMN_OF_KEY[key] for key in keys]


def feature_spec(columns: Sequence[record.Column]) -> dict[str, tf.io.FixedLenFeature]:
    """Derives TensorFlow's parsing spec from the record's columns.

    Returns:
      Feature key to `FixedLenFeature` (scalar columns; a record without one is an error) or
      `RaggedFeature` (list columns; a record without one has an empty list).
    """
    return {
        column.key: tf.io.RaggedFeature(_DTYPES[column.dtype], row_splits_dtype=tf.int64)
        if column.is_list
        else tf.io.FixedLenFeature([], _DTYPES[column.dtype])
        for column in columns
    }


def parse_record(serialized: tf.Tensor, columns: Sequence[record.Column]) -> dict[str, tf.Tensor]:
    """Parses one record.

    Args:
      serialized: string scalar, a tf.train.Example.
      columns: the columns to parse.

    Returns:
      Feature key to a scalar, or to a vector for list columns.
    """
    return tf.io.parse_single_example(serialized, feature_spec(columns))


def parse_batch(serialized: tf.Tensor, columns: Sequence[record.Column]) -> dict[str, tf.Tensor]:
    """Parses a batch of records; nothing of it is ragged or sparse.

    Replicas would serialize such tensors and parse them again, list by list.

    Args:
      serialized: string [batch].
      columns: the columns to parse.

    Returns:
      Feature key to [batch]. Tags are joined, see `join_tags`; other lists are padded by 0 or "" to
      the batch's longest, [batch, longest], and their lengths are int64 [batch], by `name_length`.
    """
    parsed = tf.io.parse_example(serialized, feature_spec(columns))
    dense: Tensors = {}
    for key, values in parsed.items():
        if not isinstance(values, tf.RaggedTensor):
            dense[key] = values
        elif key == record.TAGS:
            dense[key] = join_tags(values)
        else:
            dense |= {key: values.to_tensor(), name_length(key): values.row_lengths()}
    return dense


def decode_record(features: Mapping[str, tf.Tensor], view: ViewOptions) -> tf.Tensor:
    """Decodes the image of a parsed record, whatever its format.

    Args:
      features: scalars, at least those of `IMAGE_COLUMNS`.
      view: gray is converted to RGB, or the other way, where its channels ask for it.

    Returns:
      `view.dtype` [height, width, view.channels].
    """
    channels = view.channels
    if view.dtype == "float32":
        return views.convert_channels(_decode_values(features), channels)
    if channels not in (1, 3):  # Only raw images have such a number.
        return tf.ensure_shape(decode_raw_record(features), [None, None, channels])
    return tf.cond(
        is_raw(features),
        lambda: views.convert_channels(decode_raw_record(features), channels),
        lambda: views.decode_image(features[record.IMAGE], channels),
    )


def _decode_values(features: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The stored values of an image that is not of 8 bits: float32 [height, width, channels]."""

    def decode(dtype: str) -> tf.Tensor:
        return tf.cast(decode_raw_record(features, tf.as_dtype(dtype)), tf.float32)

    stored_as = features[record.FORMAT]
    *others, last = [
        (tf.equal(stored_as, name), functools.partial(decode, dtype))
        for name, dtype in record.RAW_FORMATS.items()
        if dtype != "uint8"
    ]
    return tf.case([*others, last], default=last[1], exclusive=True)


def is_raw(features: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Whether the record stores pixels instead of a compressed file: bool scalar."""
    return tf.equal(features[record.FORMAT], record.RAW)


def decode_raw_record(features: Mapping[str, tf.Tensor], dtype: tf.DType = tf.uint8) -> tf.Tensor:
    """The stored pixels of a `raw` record: `dtype` [height, width, stored channels]."""
    height, width, channels = (features[key] for key in _SHAPE_KEYS)
    return views.decode_raw(features[record.IMAGE], height, width, channels, dtype)


SEPARATOR = "\n"  # no tag has several lines


def join_tags(tags: tf.RaggedTensor) -> tf.Tensor:
    """Puts each record's tags into one string: string [batch], a tag a line.

    One string a record is dense, has a shape that is known, and is cheap to copy. A list of any
    length would travel as a ragged or sparse tensor, which replicas serialize and parse again.
    """
    return tf.strings.reduce_join(tags, axis=1, separator=SEPARATOR)


def split_tags(joined: tf.Tensor) -> tf.RaggedTensor:
    """The tags of each record, string [batch, tags of a record]: the inverse of `join_tags`."""
    tags = tf.strings.split(joined, SEPARATOR)
    return tf.ragged.boolean_mask(tags, tags != "")


def multi_hot(ids: tf.RaggedTensor, count: int) -> tf.Tensor:
    """Marks each record's tags.

    Args:
      ids: int64 [batch, tags of a record]; -1, an unknown tag, marks none.
      count: how many tags there are in all.

    Returns:
      float32 [batch, count] of 0 and 1.
    """
    rows, known = ids.value_rowids(), ids.flat_values >= 0
    places = tf.boolean_mask(tf.stack([rows, ids.flat_values], axis=1), known)
    shape = tf.stack([ids.nrows(), tf.constant(count, tf.int64)])
    marks = tf.scatter_nd(places, tf.ones(tf.shape(places)[0]), shape)
    # A foreign record may have a tag twice.
    return tf.ensure_shape(tf.minimum(marks, 1), [None, count])
