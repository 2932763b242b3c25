"""The Beam wiring of the analysis: shards → uint8 pixel batches → tf.Transform → a graph."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow_transform.beam as tft_beam
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from components.feeding.input_fn import read_eval_views
from components.feeding.options import ViewOptions
from components.transform import contract


@dataclasses.dataclass
class AnalyzeImages(beam.PTransform):
    """Runs a `preprocessing_fn`'s analyzers over the deterministic views of records.

    Attributes:
      shards: paths of TFRecord files.
      records: how many they hold; another number on the way is an error.
      view: the model's input.
      preprocessing_fn: in tf.Transform's convention, over `contract`'s inputs.
      batch_size: images a batch.
      output_dir: where the transform graph is written.
    """

    shards: Sequence[str]
    records: int
    view: ViewOptions
    preprocessing_fn: Callable[[dict], dict]
    batch_size: int
    output_dir: str

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """Builds the pipeline. A shard is a task; pixels never cross a stage."""
        batches = (
            root
            | "Shards" >> beam.Create(list(self.shards))
            | "SpreadShards" >> beam.Reshuffle()
            | "ReadViews"
            >> beam.FlatMap(read_view_batches, self.view, self.batch_size)  # RecordBatch
        )
        _ = (
            batches
            | "CountRecords" >> beam.Map(lambda batch: batch.num_rows)
            | "SumRecords" >> beam.CombineGlobally(sum)
            | "CheckRecords" >> beam.Map(check_records, self.records)
        )
        transform_fn = (batches, adapter_config(self.view)) | "Analyze" >> tft_beam.AnalyzeDataset(
            self.preprocessing_fn
        )
        return transform_fn | "WriteGraph" >> tft_beam.WriteTransformFn(self.output_dir)


def read_view_batches(shard: str, view: ViewOptions, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Decodes one shard, in threads, to the views that evaluation and serving also see.

    Yields:
      Batches of `contract.IMAGE_INPUT` (uint8, flattened) and `contract.LABEL_INPUT`.
    """
    for batch in read_eval_views([shard], view, batch_size).as_numpy_iterator():
        yield make_record_batch(batch[contract.IMAGE_INPUT], batch[contract.LABEL_INPUT])


def make_record_batch(images: np.ndarray, labels: np.ndarray) -> pa.RecordBatch:
    """Wraps a batch for tf.Transform; pixels are not copied.

    Args:
      images: uint8 [B, H, W, C].
      labels: bytes [B].

    Returns:
      A list<uint8> column (a fixed-size list would not reach the graph) and a list<binary> one.
    """
    count, size = len(images), images[0].size
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size))
    pixels = pa.ListArray.from_arrays(offsets, pa.array(images.reshape(-1)))
    names = pa.array([[label] for label in labels], pa.list_(pa.binary()))
    return pa.RecordBatch.from_arrays([pixels, names], [contract.IMAGE_INPUT, contract.LABEL_INPUT])


def adapter_config(view: ViewOptions) -> tfxio.TensorAdapterConfig:
    """How the columns become tensors: uint8 [B, H, W, C] and string [B]."""
    shape = (view.height_px, view.width_px, view.channels)
    empty = np.zeros((1, *shape), np.uint8)
    return tfxio.TensorAdapterConfig(
        make_record_batch(empty, np.array([b""])).schema,
        {
            contract.IMAGE_INPUT: _dense(contract.IMAGE_INPUT, shape),
            contract.LABEL_INPUT: _dense(contract.LABEL_INPUT, ()),
        },
    )


def _dense(column: str, shape: Sequence[int]) -> schema_pb2.TensorRepresentation:
    dims = " ".join(f"dim {{ size: {length} }}" for length in shape)
    text = f'dense_tensor {{ column_name: "{column}" shape {{ {dims} }} }}'
    return text_format.Parse(text, schema_pb2.TensorRepresentation())


def check_records(analysed: int, expected: int) -> int:
    """Fails the run if the analysis saw another number of records than the shards hold."""
    if analysed != expected:
        raise RuntimeError(f"Stage ReadViews lost records: {expected} in, {analysed} out.")
    return analysed
