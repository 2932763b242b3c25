"""Sums over the views, made where these are decoded, as an analyzer of tf.Transform.

An analyzer gets what TensorFlow computes of a batch, so pixels would be copied to Arrow, to
TensorFlow and back only to be summed. These sums are made by the threads that decode, and travel
beside the batch, in a column that is no input of the graph: the analyzer follows the pipeline back
to the batches that its input is computed of, and adds up that column.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from apache_beam.pipeline import AppliedPTransform

from image_pipeline.components.transform.pixel_sums import sums_length

SUMS = "pixel_sums"
"""The column's name: int64 [1 + 2 * channels] for each record, see `PixelSums`."""

# The tensor of the views as they are read, and another input of the same batches.
_summed: contextvars.ContextVar[tuple[tf.Tensor, tf.Tensor] | None] = contextvars.ContextVar(
    "summed", default=None
)


class GivesSums(beam.PTransform):
    """Marks what gives RecordBatches that have the column `SUMS` where an analyzer asks for it."""


@contextlib.contextmanager
def offer_sums(views: tf.Tensor, other: tf.Tensor) -> Iterator[None]:
    """Lets `add_sums` know, in the block, which tensor the views are.

    Args:
      views: [B, H, W, C], as they are read.
      other: any other input of the same batches; the analyzer has to have one.
    """
    token = _summed.set((views, other))
    try:
        yield
    finally:
        _summed.reset(token)


def add_sums(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor] | None:
    """Sums all analysed pixels and their squares, if these are the views as they are read.

    Args:
      images: uint8 [B, H, W, C].

    Returns:
      The number of pixels (int64 scalar), sums and sums of squares (int64 [C]); None if the images
      are something else.
    """
    offered = _summed.get()
    if offered is None or offered[0] is not images:
        return None
    channels = images.shape[-1]
    length = sums_length(channels)
    analyzer = tft.experimental.CacheablePTransformAnalyzer(
        make_accumulators_ptransform=_AddBatches(length),
        merge_accumulators_ptransform=_AddUp(length),
        extract_output_ptransform=TakeSums(),
        cache_coder=_Coder(np.int64),
    )
    inputs, dtypes, shapes = [offered[1]], [tf.int64], [[length]]
    (sums,) = tft.experimental.ptransform_analyzer(inputs, analyzer, dtypes, shapes)
    return sums[0], sums[1 : 1 + channels], sums[1 + channels :]


class _Coder(tft.experimental.SimpleJsonPTransformAnalyzerCacheCoder):
    """Writes sums into tf.Transform's cache, which knows analyzers by how their parts are shown."""

    def __repr__(self) -> str:
        return type(self).__name__


@dataclasses.dataclass
class _AddUp(beam.PTransform):
    """Adds up vectors int64 [length]."""

    length: int

    def expand(self, vectors: beam.PCollection) -> beam.PCollection:
        """Takes any number of vectors; returns one."""
        return vectors | "AddUp" >> beam.CombineGlobally(_AddVectors(self.length))


@dataclasses.dataclass
class _AddBatches(beam.PTransform):
    """Adds up the sums of the batches that an analyzer's input is computed of."""

    length: int

    def expand(self, inputs: beam.PCollection) -> beam.PCollection:
        """Takes an analyzer's input, which is not looked at; returns one vector."""
        vectors = find_batches(inputs) | "SumBatch" >> beam.Map(sum_batch)
        return vectors | _AddUp(self.length)


@dataclasses.dataclass
class TakeSums(beam.PTransform):
    """Makes the analyzer's value of one vector: the vector."""

    def expand(self, vector: beam.PCollection) -> beam.PCollection:
        """Takes and returns one element."""
        return vector | "Take" >> beam.Map(np.asarray)


class _AddVectors(beam.CombineFn):
    """Adds up vectors; integers, so in any order."""

    def __init__(self, length: int):
        self._length = length

    def create_accumulator(self) -> np.ndarray:
        return np.zeros(self._length, np.int64)

    def add_input(self, accumulator: np.ndarray, vector: np.ndarray) -> np.ndarray:
        return accumulator + vector

    def merge_accumulators(self, accumulators: Iterable[np.ndarray]) -> np.ndarray:
        return sum(accumulators, self.create_accumulator())

    def extract_output(self, accumulator: np.ndarray) -> np.ndarray:
        return accumulator


def find_batches(values: beam.PCollection) -> beam.PCollection:
    """The RecordBatches with sums that values in the same pipeline are computed of."""
    found, waiting = [], [values]
    while waiting:
        each = waiting.pop()
        if _is_given_by(each.producer):
            found.append(each)
        else:
            waiting.extend(each.producer.inputs)
    return found | "Batches" >> beam.Flatten() if len(found) > 1 else found[0]


def _is_given_by(producer: AppliedPTransform | None) -> bool:
    """Whether this, or what it is a part of, is a `GivesSums`."""
    while producer is not None and not isinstance(producer.transform, GivesSums):
        producer = producer.parent
    return producer is not None


def sum_batch(batch: pa.RecordBatch) -> np.ndarray:
    """Adds up the column `SUMS` of a batch: int64 [1 + 2 * channels]."""
    column = batch.column(SUMS)
    return column.flatten().to_numpy().reshape(len(column), -1).sum(axis=0)
