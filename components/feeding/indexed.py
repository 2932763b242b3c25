"""Records taken from mapped shards in any order: exact, resumable at once, balanced, any subset."""

import logging
from typing import Any

import numpy as np
import tensorflow as tf

from components.errors import UserError
from components.feeding.balance import Weights
from components.feeding.batches import batch_positions, steps_per_epoch
from components.feeding.decoded import DecodedRecords
from components.feeding.index import RecordIndex, read_index, read_table
from components.feeding.mapped import MappedRecords
from components.feeding.memory import Stage, fits, plan_indexed
from components.feeding.options import FeedingOptions
from components.feeding.order import (
    BalancedOrder,
    Draws,
    Order,
    SequentialOrder,
    ShuffledOrder,
    ViewsOrder,
)
from components.feeding.subset import eval_subset, select_rows
from components.view_options import ViewOptions

_LOG = logging.getLogger(__name__)
# What `select_rows` and `eval_subset` may ask for.
_SELECTING_COLUMNS = (
    *("record_id", "label", "group", "format", "height", "width", "channels", "split"),
    *("source", "source_format", "source_bytes", "source_height", "source_width", "orientation"),
    "notes",
)


class IndexedRecords:
    """The serialized records of some shards, epoch by epoch, in an exact order."""

    def __init__(self, paths: list[str], feeding: FeedingOptions, training: bool, seed: int):
        """Reads the index.

        Args:
          paths: shards of one data set.
          feeding: which records, in which batches.
          training: whether every epoch has an order of its own.
          seed: decides the order, together with the epoch.

        Raises:
          UserError: if no record is selected, or an option does not fit the data set.
        """
        self.index = read_index(paths)
        self.order = make_order(self.index, feeding, training, seed)
        self.remainder = feeding.remainder if training else "keep"
        self.steps = steps_per_epoch(self.order.length, feeding.batch_size, self.remainder)
        self.skipped = 0
        self._feeding = feeding
        self._records: MappedRecords | DecodedRecords = MappedRecords(self.index)

    def read_epoch(
        self, epoch: tf.Tensor, first_step: tf.Tensor, is_first: tf.Tensor
    ) -> tf.data.Dataset:
        """The batches of one epoch from a step on.

        Args:
          epoch: int64 scalar.
          first_step: int64 scalar.
          is_first: bool scalar, whether the epoch is the first that this process reads.

        Returns:
          Dicts of "serialized" string, "view" int64 and "copy" int64, each [batch].
        """
        return tf.data.Dataset.range(first_step, self.steps).map(
            lambda step: self._fetch(epoch, step, is_first),
            num_parallel_calls=2,  # One batch is read while the one before it is taken apart.
            deterministic=True,
        )

    def _fetch(self, epoch: tf.Tensor, step: tf.Tensor, is_first: tf.Tensor) -> dict[str, Any]:
        dtypes = (tf.string, tf.int64, tf.int64)
        fetched = tf.numpy_function(self.fetch, [epoch, step, is_first], dtypes, stateful=False)
        for tensor in fetched:
            tensor.set_shape([None])
        return dict(zip(("serialized", "view", "copy"), fetched, strict=True))

    def plan_memory(self, view: ViewOptions) -> list[Stage]:
        """What reading batches of this view holds in memory."""
        record_bytes = int(self.index.length.mean())
        return plan_indexed(self._feeding, view, record_bytes, self.index.nbytes)

    def hold_decoded(self, view: ViewOptions, others: list[Stage]) -> list[Stage]:
        """From now on decodes each image only once, if all fit beside the other stages as pixels.

        Returns:
          The stage that this is, or none.
        """
        encoded = Stage("decoded images", int(self.index.length.sum()), "at least")
        if not self._feeding.hold_decoded or not fits([*others, encoded], self._feeding):
            return []
        columns = ["height", "width", "channels"]
        table = read_table(self.index.root, self.index.shard_paths, columns)
        height, width, channels = (table[name].to_numpy().astype(np.int64) for name in columns)
        pixels = Stage("decoded images", int((height * width * channels).sum()), "uint8")
        if (channels != view.channels).any() or not fits([*others, pixels], self._feeding):
            return []
        self._records = DecodedRecords(self.index)
        return [pixels]

    def draw(self, epoch: int, step: int) -> Draws:
        """Which records and views one batch holds."""
        positions = batch_positions(
            step, self._feeding.batch_size, self.order.length, self.remainder
        )
        return self.order.draw(epoch, positions)

    def fetch(
        self, epoch: int, step: int, is_first: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reads one batch: its serialized records, view numbers and copy numbers, each [batch]."""
        draws = self.draw(int(epoch), int(step))
        verify = self._feeding.verify
        verified = verify == "always" or (verify == "first_epoch" and bool(is_first))
        read = [self._read(row, verified) for row in draws.rows.tolist()]
        kept = [number for number, data in enumerate(read) if data is not None]
        serialized = np.array([read[number] for number in kept], object)
        return serialized, draws.views[kept], draws.copies[kept]

    def _read(self, row: int, verify: bool) -> bytes | None:
        try:
            return self._records.read(row, verify)
        except UserError as error:
            if self._feeding.bad_records == "stop":
                raise
            self.skipped += 1
            _LOG.warning("Skipped record number %d: %s", self.skipped, error)
            return None


def make_order(index: RecordIndex, feeding: FeedingOptions, training: bool, seed: int) -> Order:
    """Chooses the order that the options describe.

    Raises:
      UserError: if no record is selected, or a class is not in the data set.
    """
    rows = select(index, feeding, training)
    if not training:
        return SequentialOrder(rows)
    if feeding.many_views.count > 1:
        return ViewsOrder(rows, seed, feeding.many_views.count)
    if feeding.balance == "none":
        return ShuffledOrder(rows, seed)
    return BalancedOrder(
        index.label[rows], rows, _weights(index, rows, feeding), seed, feeding.max_oversampling
    )


def select(index: RecordIndex, feeding: FeedingOptions, training: bool) -> np.ndarray:
    """The rows of the index that are read, in its order: int64 [rows]."""
    select, subset = feeding.select, None if training else feeding.eval_subset
    rows = np.arange(len(index))
    if select != type(select)() or subset:
        table = read_table(index.root, index.shard_paths, _SELECTING_COLUMNS)
        rows = select_rows(table, select.where, select.fraction, None, 0)
        if select.fold is not None:
            in_fold = select_rows(table, None, 1.0, select.fold, 0)
            rows = np.setdiff1d(rows, in_fold) if training else np.intersect1d(rows, in_fold)
        if subset:
            chosen = eval_subset(table.take(rows), subset.records, subset.seed, subset.stratified)
            rows = rows[chosen]
    if not len(rows):
        raise UserError(
            f"at least one record must be selected, but feeding.select ({select}) leaves none of "
            f"{len(index)}; widen it."
        )
    return rows


def _weights(index: RecordIndex, rows: np.ndarray, feeding: FeedingOptions) -> Weights:
    """The weights by class number; every class of the rows must have one, and no other."""
    if not isinstance(feeding.balance, dict):
        return "uniform"
    there = {index.classes[code]: code for code in np.unique(index.label[rows]).tolist()}
    if wrong := sorted(set(feeding.balance) ^ set(there)):
        raise UserError(
            f"feeding.balance must give every class that is read a weight, and no other, but "
            f"{wrong[0]!r} is only in one of balance ({sorted(feeding.balance)}) and the selected "
            f"records ({sorted(there)}); correct it, or leave classes out by feeding.select."
        )
    return {code: feeding.balance[name] for name, code in there.items()}
