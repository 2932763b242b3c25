"""Records as others write them: features in their order, the image among them."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from image_pipeline.components.dataset import record
from tests import shards

Features = Mapping[str, Sequence[Any]]


def describe(number: int, label: str, **further: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """The features of a record that shows `shards.draw_image(number)`, and further ones behind."""
    image = shards.draw_image(number)
    return {
        record.SOURCE_ID: [f"{number}".encode()],
        record.IMAGE: [shards.encode_image(image, "png")],
        record.FORMAT: [b"png"],
        record.HEIGHT: [image.shape[0]],
        record.WIDTH: [image.shape[1]],
        record.CHANNELS: [image.shape[2]],
        record.LABEL: [label.encode()],
        **further,
    }


def encode(features: Features) -> bytes:
    """A tf.Example with its features in this order, which a map of protocol buffers has not."""
    entries = [
        _field(1, _field(1, key.encode()) + _field(2, _encode_feature(values)))
        for key, values in features.items()
    ]
    return _field(1, b"".join(entries))


def _encode_feature(values: Sequence[Any]) -> bytes:
    """One of bytes, floats or ints; of bytes as they are, if that is what is given."""
    if isinstance(values, bytes):
        return values
    feature = tf.train.Feature()
    if values and isinstance(values[0], bytes):
        feature.bytes_list.value.extend(values)
    elif values and isinstance(values[0], float):
        feature.float_list.value.extend(values)
    elif values:
        feature.int64_list.value.extend(values)
    return feature.SerializeToString()


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, which TensorFlow encodes as the first of a `BytesList`."""
    return bytes([number << 3 | 2]) + tf.train.BytesList(value=[content]).SerializeToString()[1:]


def write_foreign(path: pathlib.Path, records: Sequence[Features | bytes]) -> str:
    """Writes a TFRecord file, by TensorFlow; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for each in records:
            writer.write(each if isinstance(each, bytes) else encode(each))
    return str(path)
