"""Shards to Arrow batches of pixels, and how those become tensors in tf.Transform."""

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from image_pipeline.components import contract, progress
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding.input_fn import read_views
from image_pipeline.components.transform.record_sample import keep_records
from image_pipeline.components.views.options import ViewOptions

_ARROW = {"bytes": pa.binary(), "int64": pa.int64(), "float32": pa.float32()}
_TENSOR = {"bytes": tf.string, "int64": tf.int64, "float32": tf.float32}
_PIXELS = {"uint8": pa.uint8(), "float32": pa.float32()}
_LABEL = record.Column(contract.LABEL_INPUT, "bytes")


def read_view_batches(
    shard: str,
    view: ViewOptions,
    batch_size: int,
    columns: Sequence[record.Column],
    fraction: float,
) -> Iterator[pa.RecordBatch]:
    """Decodes one shard, in threads, to the views that evaluation and serving also see.

    Args:
      shard: path of a TFRecord file.
      view: the model's input.
      batch_size: images a batch.
      columns: further columns.
      fraction: share of the records that is read, see `keep_records`.

    Yields:
      Batches of `contract`'s inputs, the pixels flattened.
    """
    keep = None if fraction == 1 else functools.partial(keep_records, fraction=fraction)
    batches = read_views([shard], view, batch_size, columns, keep)
    for batch in batches.as_numpy_iterator():
        images = batch.pop(contract.IMAGE_INPUT)
        progress.advance(len(images))
        yield make_record_batch(images, batch, columns)


def make_record_batch(
    images: np.ndarray,
    values: Mapping[str, Sequence | np.ndarray],
    columns: Sequence[record.Column] = (),
) -> pa.RecordBatch:
    """Wraps a batch for tf.Transform; pixels are not copied.

    Args:
      images: uint8 or float32 [B, H, W, C].
      values: the label's and the further columns' by their keys: B values each.
      columns: the further columns.

    Returns:
      A column of lists of pixels (a fixed-size list would not reach the graph) and list columns of
      one value each.
    """
    count, size = len(images), images[0].size
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size))
    arrays = [pa.ListArray.from_arrays(offsets, pa.array(images.reshape(-1)))]
    arrays += [
        pa.array([[value] for value in values[column.key]], pa.list_(_ARROW[column.dtype]))
        for column in (_LABEL, *columns)
    ]
    names = [contract.IMAGE_INPUT, _LABEL.key, *(column.key for column in columns)]
    return pa.RecordBatch.from_arrays(arrays, names)


def adapter_config(
    view: ViewOptions, columns: Sequence[record.Column] = ()
) -> tfxio.TensorAdapterConfig:
    """How the columns become tensors: [B, H, W, C], string [B], and what is further read."""
    shape = (view.height_px, view.width_px, view.channels)
    scalars = (_LABEL, *columns)
    kinds = [
        (contract.IMAGE_INPUT, _PIXELS[view.dtype]),
        *((c.key, _ARROW[c.dtype]) for c in scalars),
    ]
    representations = {contract.IMAGE_INPUT: _dense(contract.IMAGE_INPUT, shape)}
    representations |= {column.key: _dense(column.key, ()) for column in scalars}
    schema = pa.schema([(key, pa.list_(kind)) for key, kind in kinds])
    return tfxio.TensorAdapterConfig(schema, representations)


def input_specs(
    view: ViewOptions, columns: Sequence[record.Column] = ()
) -> dict[str, tf.TensorSpec]:
    """What a `preprocessing_fn` gets, as `adapter_config` makes it."""
    shape = (None, view.height_px, view.width_px, view.channels)
    return {contract.IMAGE_INPUT: tf.TensorSpec(shape, tf.as_dtype(view.dtype))} | {
        column.key: tf.TensorSpec((None,), _TENSOR[column.dtype]) for column in (_LABEL, *columns)
    }


def _dense(column: str, shape: Sequence[int]) -> schema_pb2.TensorRepresentation:
    dims = " ".join(f"dim {{ size: {length} }}" for length in shape)
    text = f'dense_tensor {{ column_name: "{column}" shape {{ {dims} }} }}'
    return text_format.Parse(text, schema_pb2.TensorRepresentation())
