"""Shards to batches of deterministic views, as the analysis sees them, and to tf.Transform's input.

It reads what ingest wrote, in plain threads: `feeding.input_fn` makes the same views for training
and evaluation, but takes a second for each shard to describe its stages to TensorFlow.
"""

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import pyarrow as pa
import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from image_pipeline.components import contract, files, progress
from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.record import Column
from image_pipeline.components.dataset.stored import StoredImage, take_parsed_image
from image_pipeline.components.dataset.tfrecord import CorruptRecord, read_records
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.budget import check_budget, plan_analysis
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import SEPARATOR
from image_pipeline.components.threads import map_in_order, usable_cores
from image_pipeline.components.transform.kept_sums import KeptSums, hash_image, read_sums
from image_pipeline.components.transform.moments import SUMS
from image_pipeline.components.views.fast import view_image
from image_pipeline.components.views.options import ViewOptions

_AT_ONCE = 8  # records that a thread takes at once, see `map_in_order`
_IDS = 256  # records whose ids are looked at together
_BUCKETS = 10**9  # so `analyze_fraction` counts in billionths
_MOST_VALUES = 2**31 - 1  # of an Arrow list column, whose offsets have 32 bits
_PIXELS = {"uint8": pa.uint8(), "float32": pa.float32()}
_LABEL, _SOURCE_ID = Column(record.LABEL, "bytes"), Column(record.SOURCE_ID, "bytes")
_LABEL_INPUT = Column(contract.LABEL_INPUT, "bytes")


class _Dtype(NamedTuple):
    """A column's type, by who has it."""

    example: str
    numpy: Any
    arrow: pa.DataType
    tensor: tf.DType


_DTYPES = {
    "bytes": _Dtype("bytes_list", object, pa.list_(pa.binary()), tf.string),
    "int64": _Dtype("int64_list", np.int64, pa.list_(pa.int64()), tf.int64),
    "float32": _Dtype("float_list", np.float32, pa.list_(pa.float32()), tf.float32),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is read of each record beside its label.

    Attributes:
      columns: further columns of one value each, or tags.
      pixels: whether the pixels of its view are.
      sums: whether the sums over these pixels are, see `PixelSums`.
    """

    columns: tuple[Column, ...] = ()
    pixels: bool = True
    sums: bool = False


ALL_PIXELS = Wanted()


class ViewBatch(NamedTuple):
    """What is wanted of some records."""

    labels: np.ndarray
    """Names of classes: object [B], of bytes."""
    values: dict[str, np.ndarray]
    """[B] by each further column's key; tags are joined, see `tags.join_tags`."""
    images: np.ndarray | None = None
    """`view.dtype` [B, height_px, width_px, channels]."""
    sums: np.ndarray | None = None
    """int64 [B, KEY + 1 + 2 * channels], see `kept_sums`."""


class _NotOursError(Exception):
    """A record lacks a value."""


def read_view_batches(
    shard: str,
    view: ViewOptions,
    batch_size: int,
    wanted: Wanted,
    fraction: float,
    earlier: str = "",
) -> Iterator[pa.RecordBatch]:
    """Decodes one shard, in threads, to the views that evaluation and serving also see.

    Args:
      shard: path of a TFRecord file.
      view: the model's input.
      batch_size: images a batch.
      wanted: what is read of each record.
      fraction: share of the records that is read, see `keep_records`.
      earlier: folder of a graph, whose images are not decoded again for their sums; "" for none.

    Yields:
      Batches of `contract`'s inputs, as `adapter_config` describes them.
    """
    if wanted.pixels:
        values = view.height_px * view.width_px * view.channels
        batch_size = min(batch_size, max(1, _MOST_VALUES // values))
    kept = read_sums(earlier, view) if earlier and wanted.sums else None
    for batch in read_views(shard, view, batch_size, wanted, fraction, kept):
        progress.advance(len(batch.labels))
        yield make_record_batch(batch, wanted.columns)


def read_views(
    shard: str,
    view: ViewOptions,
    batch_size: int,
    wanted: Wanted = ALL_PIXELS,
    fraction: float = 1,
    kept: KeptSums | None = None,
    most: int | None = None,
) -> Iterator[ViewBatch]:
    """Reads one shard in its order, and makes views in threads: those that serving makes.

    Args:
      shard: path of a TFRecord file.
      view: the model's input.
      batch_size: records a batch; the last one may be smaller.
      wanted: what is read of a record.
      fraction: share of the records that is read, see `keep_records`.
      kept: sums that are known, of images that are not decoded unless their pixels are wanted.
      most: how many records are read; None for all.

    Raises:
      UserError: naming the shard or the record, if it is damaged; or if the memory is too small.
    """
    if wanted.pixels:  # Encoded images are small beside them.
        feeding = FeedingOptions(batch_size=batch_size)
        check_budget(plan_analysis(feeding, view), feeding, "analysis")
    shape = (view.height_px, view.width_px, view.channels)
    pixel_sums, own = PixelSums(*shape), threading.local()

    def list_jobs() -> Iterator[tuple[bytes, np.ndarray | None, int]]:
        """Each record, with the pixels of its batch, if they are wanted, and its row there."""
        records = itertools.islice(_read_records(shard, fraction), most)
        while some := list(itertools.islice(records, batch_size)):
            images = np.empty((len(some), *shape), view.dtype) if wanted.pixels else None
            for row, serialized in enumerate(some):
                yield serialized, images, row

    def read(job: tuple[bytes, np.ndarray | None, int]) -> tuple:
        """A record's label, further values, batch of pixels, and sums."""
        serialized, images, row = job
        feature = tf.train.Example.FromString(serialized).features.feature
        sums = None
        if images is not None or wanted.sums:
            if images is None and not hasattr(own, "view"):
                own.view = np.empty(shape, view.dtype)  # A thread's own, for one view at a time.
            out = own.view if images is None else images[row]
            with _naming_record(feature):
                image = fetch(_take_image(feature))
                key = hash_image(image) if wanted.sums else None
                if kept is not None and key is not None and images is None:
                    sums = kept.find(key)
                if sums is None:
                    view_image(image, None, view, out)
                    sums = None if key is None else np.append(key, pixel_sums.sum(out))
        values = [_take_value(feature, column) for column in wanted.columns]
        return _take_value(feature, _LABEL), values, images, sums

    # Threads decode ahead and in order, so the rows of a batch come one after the other.
    rows = map_in_order(read, list_jobs(), usable_cores(), _AT_ONCE)
    try:
        while some := list(itertools.islice(rows, batch_size)):
            labels, values, (images, *_), sums = zip(*some, strict=True)
            columns = enumerate(wanted.columns)
            yield ViewBatch(
                np.array(labels, object),
                {
                    column.key: np.array([each[n] for each in values], _DTYPES[column.dtype].numpy)
                    for n, column in columns
                },
                images,
                np.array(sums, np.int64) if wanted.sums else None,
            )
    except (DecodeError, _NotOursError) as error:
        raise UserError(
            f"{shard} has a record that ingest does not write ({error}); run ingest again."
        ) from error


def _read_records(shard: str, fraction: float) -> Iterator[bytes]:
    """The records of a shard that belong to a fraction."""
    with files.open_input(shard) as file:
        records = read_records(file)
        try:
            if fraction == 1:
                yield from records
            while some := list(itertools.islice(records, _IDS)):
                ids = tf.constant([record.read_feature(each, _SOURCE_ID) for each in some])
                yield from itertools.compress(some, keep_records(ids, fraction).numpy())
        except CorruptRecord as error:
            raise UserError(f"{shard} is damaged: {error}; run ingest again.") from error


def keep_records(ids: tf.Tensor, fraction: float) -> tf.Tensor:
    """Chooses about a fraction of the records, the same ones for any sharding and batch size.

    The id's FarmHash decides (`tf.strings.to_hash_bucket_fast`, stable across TensorFlow's
    versions). What a smaller fraction takes, a greater one takes too.

    Args:
      ids: string [...], record ids.
      fraction: greater than 0, at most 1.

    Returns:
      bool [...].
    """
    return tf.strings.to_hash_bucket_fast(ids, _BUCKETS) < round(fraction * _BUCKETS)


def _take_image(feature: Any) -> StoredImage:
    try:
        return take_parsed_image(feature)
    except IndexError as error:
        raise _NotOursError("it lacks an image, or its size") from error


@contextlib.contextmanager
def _naming_record(feature: Any) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        name = _take_value(feature, _SOURCE_ID).decode(errors="replace")
        raise UserError(
            f"the record with the id {name!r} is damaged: {error}; write its shard again."
        ) from error


def _take_value(feature: Any, column: Column) -> Any:
    """A record's value of a column; the names of a list are joined, see `tags.join_tags`."""
    values = getattr(feature[column.key], _DTYPES[column.dtype].example).value
    if column.is_list:
        return SEPARATOR.encode().join(values)
    if len(values) != 1:
        raise _NotOursError(f"it has {len(values)} values of {column.key}, not one")
    return values[0]


class PixelSums:
    """Exact sums over the pixels of images of 8 bits and one size. Threads may share it.

    OpenCV sums in vector instructions, and lets other Python threads run meanwhile: 0.02 ms for
    224 x 224 pixels in colour, where TensorFlow takes 1 ms for larger integers of all of them. Each
    thread keeps the memory for one image: to take new memory costs more than the sums.
    """

    def __init__(self, height_px: int, width_px: int, channels: int):
        """Sums images uint8 [height_px, width_px, channels]."""
        self._shape = (channels, height_px, width_px)
        self._own = threading.local()

    def sum(self, image: np.ndarray) -> np.ndarray:
        """Sums the pixels and their squares.

        OpenCV adds integers and gives float64. Of squares it takes the root, and squares that:
        what this loses, less than 2^-51 of the value, is less than a half up to 10^10 pixels.

        Args:
          image: uint8 [height_px, width_px, channels].

        Returns:
          int64 [1 + 2 * channels]: the number of pixels, each channel's sum, and each channel's sum
          of squares.
        """
        if not hasattr(self._own, "planes"):
            self._own.planes = list(np.empty(self._shape, np.uint8))
        planes = cv2.split(image, self._own.planes)  # a channel after the other
        totals = [cv2.sumElems(plane)[0] for plane in planes]
        squares = [cv2.norm(plane, cv2.NORM_L2SQR) for plane in planes]
        return np.array([planes[0].size, *map(round, totals), *map(round, squares)], np.int64)


def make_record_batch(batch: ViewBatch, columns: Sequence[Column] = ()) -> pa.RecordBatch:
    """Wraps a batch for tf.Transform; pixels are not copied.

    Args:
      batch: of B records.
      columns: the further columns.

    Returns:
      List columns of one value each, before them one of lists of pixels (a fixed-size list would
      not reach the graph), after them one of lists of sums, as far as the batch has them.
    """
    values = {_LABEL_INPUT.key: batch.labels, **batch.values}
    own = {
        column.key: pa.array([[value] for value in values[column.key]], _DTYPES[column.dtype].arrow)
        for column in (_LABEL_INPUT, *columns)
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
    kinds = {each.key: _DTYPES[each.dtype].arrow for each in (_LABEL_INPUT, *wanted.columns)}
    shapes: dict[str, Sequence[int]] = dict.fromkeys(kinds, ())
    if wanted.pixels:
        shapes[contract.IMAGE_INPUT] = (view.height_px, view.width_px, view.channels)
        kinds = {contract.IMAGE_INPUT: pa.list_(_PIXELS[view.dtype])} | kinds
    if wanted.sums:
        kinds = kinds | {SUMS: pa.list_(pa.int64())}
    representations = {}
    for key, shape in shapes.items():
        dims = " ".join(f"dim {{ size: {length} }}" for length in shape)
        text = f'dense_tensor {{ column_name: "{key}" shape {{ {dims} }} }}'
        representations[key] = text_format.Parse(text, schema_pb2.TensorRepresentation())
    specs = input_specs(view, wanted.columns)
    return tfxio.TensorAdapterConfig(pa.schema(kinds), representations, specs)


def input_specs(view: ViewOptions, columns: Sequence[Column] = ()) -> dict[str, tf.TensorSpec]:
    """What a `preprocessing_fn` gets."""
    shape = (None, view.height_px, view.width_px, view.channels)
    return {contract.IMAGE_INPUT: tf.TensorSpec(shape, tf.as_dtype(view.dtype))} | {
        column.key: tf.TensorSpec((None,), _DTYPES[column.dtype].tensor)
        for column in (_LABEL_INPUT, *columns)
    }
