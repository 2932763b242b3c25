"""Shards to Arrow batches of pixels, and how those become tensors in tf.Transform."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from image_pipeline.components import contract, progress
from image_pipeline.components.dataset import record
from image_pipeline.components.transform.sums_analyzer import SUMS
from image_pipeline.components.transform.view_reader import (
    ALL_PIXELS,
    ViewBatch,
    Wanted,
    read_views,
)
from image_pipeline.components.views.options import ViewOptions

_ARROW = {
    "bytes": pa.list_(pa.binary()),
    "int64": pa.list_(pa.int64()),
    "float32": pa.list_(pa.float32()),
}
_TENSOR = {"bytes": tf.string, "int64": tf.int64, "float32": tf.float32}
_PIXELS = {"uint8": pa.uint8(), "float32": pa.float32()}
# Of an Arrow list column, whose offsets have 32 bits.
_MOST_VALUES = 2**31 - 1
_LABEL = record.Column(contract.LABEL_INPUT, "bytes")


def read_view_batches(
    shard: str, view: ViewOptions, batch_size: int, wanted: Wanted, fraction: float
) -> Iterator[pa.RecordBatch]:
    """Decodes one shard, in threads, to the views that evaluation and serving also see.

    Args:
      shard: path of a TFRecord file.
      view: the model's input.
      batch_size: images a batch.
      wanted: what is read of each record.
      fraction: share of the records that is read, see `keep_records`.

    Yields:
      Batches of `contract`'s inputs, as `adapter_config` describes them.
    """
    if wanted.pixels:
        values = view.height_px * view.width_px * view.channels
        batch_size = min(batch_size, max(1, _MOST_VALUES // values))
    for batch in read_views(shard, view, batch_size, wanted, fraction):
        progress.advance(len(batch.labels))
        yield make_record_batch(batch, wanted.columns)


def make_record_batch(batch: ViewBatch, columns: Sequence[record.Column] = ()) -> pa.RecordBatch:
    """Wraps a batch for tf.Transform; pixels are not copied.

    Args:
      batch: of B records.
      columns: the further columns.

    Returns:
      List columns of one value each, before them one of lists of pixels (a fixed-size list would
      not reach the graph), after them one of lists of sums, as far as the batch has them.
    """
    values = {_LABEL.key: batch.labels, **batch.values}
    own = {
        column.key: pa.array([[value] for value in values[column.key]], _ARROW[column.dtype])
        for column in (_LABEL, *columns)
    }
    pixels = {} if batch.images is None else {contract.IMAGE_INPUT: _list_rows(batch.images)}
    sums = {} if batch.sums is None else {SUMS: _list_rows(batch.sums)}
    return pa.RecordBatch.from_pydict(pixels | own | sums)


def _list_rows(rows: np.ndarray) -> pa.ListArray:
    """A list of each row's values: [B, ...] is not copied."""
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(rows[0].size)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(rows.reshape(-1)))


def adapter_config(view: ViewOptions, wanted: Wanted = ALL_PIXELS) -> tfxio.TensorAdapterConfig:
    """How the columns become tensors: [B, H, W, C], string [B], and what is further read.

    What is not wanted of a graph's inputs is left out, as if it were a projection of TFXIO: the
    graph has that input, and no analyzer needs it. The sums never become a tensor.
    """
    shape = (view.height_px, view.width_px, view.channels)
    scalars = {column.key: _ARROW[column.dtype] for column in (_LABEL, *wanted.columns)}
    representations = {key: _dense(key, ()) for key in scalars}
    kinds = scalars
    if wanted.pixels:
        representations[contract.IMAGE_INPUT] = _dense(contract.IMAGE_INPUT, shape)
        kinds = {contract.IMAGE_INPUT: pa.list_(_PIXELS[view.dtype])} | kinds
    if wanted.sums:
        kinds = kinds | {SUMS: pa.list_(pa.int64())}
    specs = input_specs(view, wanted.columns)
    return tfxio.TensorAdapterConfig(pa.schema(kinds), representations, specs)


def input_specs(
    view: ViewOptions, columns: Sequence[record.Column] = ()
) -> dict[str, tf.TensorSpec]:
    """What a `preprocessing_fn` gets."""
    shape = (None, view.height_px, view.width_px, view.channels)
    return {contract.IMAGE_INPUT: tf.TensorSpec(shape, tf.as_dtype(view.dtype))} | {
        column.key: tf.TensorSpec((None,), _TENSOR[column.dtype]) for column in (_LABEL, *columns)
    }


def _dense(column: str, shape: Sequence[int]) -> schema_pb2.TensorRepresentation:
    dims = " ".join(f"dim {{ size: {length} }}" for length in shape)
    text = f'dense_tensor {{ column_name: "{column}" shape {{ {dims} }} }}'
    return text_format.Parse(text, schema_pb2.TensorRepresentation())
