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
    """A tf.Example of TensorFlow's own making, the features in this order."""
    parts = []
    for key, values in features.items():
        feature = tf.train.Feature()
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
        parts.append(tf.train.Features(feature={key: feature}).SerializeToString())
    # A map of protocol buffers has no order; its entries are written one after the other.
    # The first field of an Example is encoded as that of a BytesList.
    return tf.train.BytesList(value=[b"".join(parts)]).SerializeToString()


def write_foreign(path: pathlib.Path, records: Sequence[Features | bytes]) -> str:
    """Writes a TFRecord file, by TensorFlow; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for each in records:
            writer.write(each if isinstance(each, bytes) else encode(each))
    return str(path)
