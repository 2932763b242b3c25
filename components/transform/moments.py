"""Means and standard deviations of pixels, and the sums that they are made of.

Of 8 bits they are exact to the last digit: sums and sums of squares are accumulated as integers,
and no digit is lost, whatever the order, the sharding and the batch size. Of floats they are
merged in float64 (Chan et al. 1979), whose last digits depend on these.

Sums over the views as they are read are made where these are decoded. An analyzer gets what
TensorFlow computes of a batch, so pixels would be copied to Arrow, to TensorFlow and back only to
be summed. The threads that decode make the sums instead (`record_batches.PixelSums`), which travel
with the batch, in a column that is not an input of the graph: the analyzer follows the pipeline
back to the batches that its input is computed of, and adds up that column.
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

from image_pipeline.components.transform.kept_sums import KEY

SUMS = "pixel_sums"
"""The column's name: int64 [KEY + 1 + 2 * channels] for each record, see `kept_sums`."""
_ROUNDING = 1e-12  # relative; float32 values that differ at all differ by 6e-8
# The tensor of the views as they are read, and another input of the same batches.
_summed: contextvars.ContextVar[tuple[tf.Tensor, tf.Tensor] | None] = contextvars.ContextVar(
    "summed", default=None
)


def channel_mean_and_std(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and (population) standard deviation of each channel over all analysed pixels.

    Args:
      images: uint8 or float32 [B, H, W, C].

    Returns:
      Two float64 [C], in the images' unit.
    """
    if images.dtype != tf.uint8:
        values = tf.cast(tf.reshape(images, [-1, images.shape[-1]]), tf.float64)
        mean, variance = (
            moment(values, reduce_instance_dims=False, output_dtype=tf.float64)
            for moment in (tft.mean, tft.var)
        )
        std = tf.sqrt(tf.maximum(variance, 0.0))
        # Of equal values the variance is what was rounded, not always 0.
        return mean, tf.where(std <= _ROUNDING * tf.abs(mean), tf.zeros_like(std), std)
    if (sums := add_sums(images)) is not None:
        return mean_and_std_from_sums(*sums)
    pixels = tf.cast(images, tf.int32)
    count = tft.sum(tf.ones_like(pixels[..., :1]))
    return mean_and_std_from_sums(count, _sum_pixels(pixels), _sum_pixels(tf.square(pixels)))


def mean_and_std_from_sums(
    count: tf.Tensor, total: tf.Tensor, total_squares: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Turns sums over pixels into their mean and (population) standard deviation.

    The deviations are taken from the integer nearest below the mean, so nothing cancels in the
    division: (Σx² − 2cΣx + nc²) / n − (mean − c)². Up to 7·10¹³ pixels of 8 bits no integer here
    leaves int64, since 2cΣx is at most 2·255²·n. ImageNet at 224 px is 6·10¹⁰.

    Args:
      count: int64 scalar, n.
      total: int64 [C], Σx.
      total_squares: int64 [C], Σx².

    Returns:
      Two float64 [C], in the unit of x.
    """
    center = total // count
    squares_from_center = total_squares - 2 * center * total + count * tf.square(center)
    mean_from_center = _divide(total - count * center, count)
    variance = _divide(squares_from_center, count) - tf.square(mean_from_center)
    return tf.cast(center, tf.float64) + mean_from_center, tf.sqrt(tf.maximum(variance, 0.0))


def mean_image(images: tf.Tensor) -> tf.Tensor:
    """The mean over all analysed images, of every pixel on its own.

    Args:
      images: uint8 or float32 [B, H, W, C].

    Returns:
      float64 [H, W, C], in the images' unit: of uint8 integer sums, divided once.
    """
    if images.dtype != tf.uint8:
        return tft.mean(tf.cast(images, tf.float64), False, output_dtype=tf.float64)
    # A batch's sum always fits an int32.
    of_batch = tf.reduce_sum(tf.cast(images, tf.int32), axis=0, keepdims=True)
    total = tft.sum(tf.cast(of_batch, tf.int64), reduce_instance_dims=False)
    return _divide(total, tft.sum(tf.ones_like(images[:, 0, 0, 0], tf.int64)))


def _sum_pixels(pixels: tf.Tensor) -> tf.Tensor:
    """Sums int32 [B, H, W, C] over all batches to int64 [C]; a row's sum always fits an int32."""
    rows = tf.reduce_sum(pixels, axis=2)
    return tft.sum(tf.reduce_sum(tf.cast(rows, tf.int64), axis=1), reduce_instance_dims=False)


def _divide(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    return tf.cast(numerator, tf.float64) / tf.cast(denominator, tf.float64)


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
    length = 1 + 2 * channels
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
    return take_rows(batch)[:, KEY:].sum(axis=0)


def take_rows(batch: pa.RecordBatch) -> np.ndarray:
    """The column `SUMS` of a batch: int64 [B, KEY + 1 + 2 * channels]."""
    column = batch.column(SUMS)
    return column.flatten().to_numpy().reshape(len(column), -1)
