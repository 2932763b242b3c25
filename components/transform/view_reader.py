"""Records to deterministic views, read from the beginning of a shard: what the analysis sees.

It reads what ingest wrote, in plain threads: `feeding.input_fn` makes the same views for training
and evaluation, but takes a second for each shard to describe its stages to TensorFlow.
"""

import dataclasses
import itertools
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from image_pipeline.components import files
from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.record import Column
from image_pipeline.components.dataset.stored import bad_streamed_record, take_parsed_image
from image_pipeline.components.dataset.tfrecord import CorruptRecord, read_records
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.budget import check_budget, plan_streaming
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.tags import SEPARATOR
from image_pipeline.components.threads import map_in_order, usable_cores
from image_pipeline.components.transform.pixel_sums import PixelSums
from image_pipeline.components.transform.record_sample import keep_records
from image_pipeline.components.views.fast import view_image
from image_pipeline.components.views.options import ViewOptions

# Records that a thread takes at once, see `map_in_order`.
_AT_ONCE = 8
# Records whose ids are looked at together.
_IDS = 256
_NUMPY = {"bytes": object, "int64": np.int64, "float32": np.float32}
_LABEL, _SOURCE_ID = Column(record.LABEL, "bytes"), Column(record.SOURCE_ID, "bytes")


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
    """int64 [B, 1 + 2 * channels]."""


def read_views(
    shard: str,
    view: ViewOptions,
    batch_size: int,
    wanted: Wanted = ALL_PIXELS,
    fraction: float = 1,
) -> Iterator[ViewBatch]:
    """Reads one shard in its order, and makes views in threads: those that serving makes.

    Args:
      shard: path of a TFRecord file.
      view: the model's input.
      batch_size: records a batch; the last one may be smaller.
      wanted: what is read of a record.
      fraction: share of the records that is read, see `keep_records`.

    Raises:
      UserError: naming the shard or the record, if it is damaged; or if the memory is too small.
    """
    if wanted.pixels:
        _check_memory(view, batch_size)
    reader = _Reader(view, wanted)
    jobs = reader.plan(_keep(_read_shard(shard), fraction), batch_size)
    rows = map_in_order(lambda job: reader.read(*job), jobs, usable_cores(), _AT_ONCE)
    try:
        while some := list(itertools.islice(rows, batch_size)):
            yield reader.gather(some)
    except (DecodeError, _NotOursError) as error:
        raise UserError(
            f"{shard} has a record that ingest does not write ({error}); run ingest again."
        ) from error


def _check_memory(view: ViewOptions, batch_size: int) -> None:
    """Checks the size of some batches of pixels; encoded images are small beside them."""
    feeding = FeedingOptions(batch_size=batch_size)
    stages = plan_streaming(feeding, view, record_bytes=0, shards=1, use="analysis")
    check_budget(stages, feeding, "analysis")


def _read_shard(shard: str) -> Iterator[bytes]:
    with files.open_input(shard) as file:
        try:
            yield from read_records(file)
        except CorruptRecord as error:
            raise UserError(f"{shard} is damaged: {error}; run ingest again.") from error


def _keep(records: Iterator[bytes], fraction: float) -> Iterator[bytes]:
    """Those of some records that belong to a fraction."""
    if fraction == 1:
        yield from records
        return
    while some := list(itertools.islice(records, _IDS)):
        ids = tf.constant([record.read_feature(each, _SOURCE_ID) for each in some])
        yield from itertools.compress(some, keep_records(ids, fraction).numpy())


class _NotOursError(Exception):
    """A record lacks a value."""


class _Row(NamedTuple):
    """What is wanted of one record; its pixels are in its batch's."""

    label: bytes
    values: list
    images: np.ndarray | None
    sums: np.ndarray | None


class _Reader:
    """Makes rows of serialized records. Threads share it."""

    def __init__(self, view: ViewOptions, wanted: Wanted):
        self._view, self._wanted = view, wanted
        self._shape = (view.height_px, view.width_px, view.channels)
        self._sums = PixelSums(*self._shape)
        self._own = threading.local()

    def plan(
        self, records: Iterator[bytes], batch_size: int
    ) -> Iterator[tuple[bytes, np.ndarray | None, int]]:
        """Pairs each record with the pixels of its batch, if they are wanted, and its row there."""
        while some := list(itertools.islice(records, batch_size)):
            images = self._empty(len(some)) if self._wanted.pixels else None
            for number, serialized in enumerate(some):
                yield serialized, images, number

    def read(self, serialized: bytes, images: np.ndarray | None, number: int) -> _Row:
        """Reads one record; its view, if anything of it is wanted, is written to its row."""
        feature = tf.train.Example.FromString(serialized).features.feature
        sums = None
        if images is not None or self._wanted.sums:
            out = self._scratch() if images is None else images[number]
            self._make_view(feature, out)
            sums = self._sums.sum(out) if self._wanted.sums else None
        values = [_take_value(feature, column) for column in self._wanted.columns]
        return _Row(_take_value(feature, _LABEL), values, images, sums)

    def gather(self, rows: list[_Row]) -> ViewBatch:
        """Makes a batch of all the rows that `plan` gave the same pixels."""
        columns = enumerate(self._wanted.columns)
        return ViewBatch(
            np.array([row.label for row in rows], object),
            {
                column.key: np.array([row.values[place] for row in rows], _NUMPY[column.dtype])
                for place, column in columns
            },
            rows[0].images,
            np.array([row.sums for row in rows], np.int64) if self._wanted.sums else None,
        )

    def _make_view(self, feature: Any, out: np.ndarray) -> None:
        try:
            image = take_parsed_image(feature)
        except IndexError as error:
            raise _NotOursError("it lacks an image, or its size") from error
        try:
            view_image(fetch(image), None, self._view, out)
        except ValueError as error:
            raise bad_streamed_record(_take_value(feature, _SOURCE_ID), error) from error

    def _empty(self, count: int) -> np.ndarray:
        return np.empty((count, *self._shape), self._view.dtype)

    def _scratch(self) -> np.ndarray:
        """A thread's own memory for one view."""
        if not hasattr(self._own, "view"):
            (self._own.view,) = self._empty(1)
        return self._own.view


def _take_value(feature: Any, column: Column) -> Any:
    """A record's value of a column; the names of a list are joined, see `tags.join_tags`."""
    kind = {"bytes": "bytes_list", "int64": "int64_list", "float32": "float_list"}[column.dtype]
    values = getattr(feature[column.key], kind).value
    if column.is_list:
        return SEPARATOR.encode().join(values)
    if len(values) != 1:
        raise _NotOursError(f"it has {len(values)} values of {column.key}, not one")
    return values[0]
