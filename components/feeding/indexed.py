"""Records taken from shards in any order: exact, resumable at once, balanced, any subset."""

import dataclasses
import logging
from typing import Any

import numpy as np
import tensorflow as tf

from components.errors import UserError
from components.feeding.batches import batch_positions, real_records, steps_per_epoch
from components.feeding.decoded import DecodedRecords
from components.feeding.index import read_index, read_table
from components.feeding.memory import Stage, fits, plan_indexed
from components.feeding.options import FeedingOptions
from components.feeding.order import Draws
from components.feeding.selection import make_order
from components.feeding.stored import StoredRecords
from components.view_options import ViewOptions

_LOG = logging.getLogger(__name__)


class IndexedRecords:
    """The serialized records of some shards, epoch by epoch, in an exact order."""

    def __init__(self, paths: list[str], feeding: FeedingOptions, training: bool, seed: int):
        """Reads the index.

        Args:
          paths: shards of one data set, or several.
          feeding: which records, in which batches.
          training: whether every epoch has an order of its own.
          seed: decides the order, together with the epoch.

        Raises:
          UserError: if no record is selected, or an option does not fit the data set.
        """
        self.index = read_index(paths)
        self.order = make_order(self.index, feeding, training, seed)
        self.remainder = feeding.remainder if training else "keep"
        self._training = training
        self.steps = steps_per_epoch(self.order.length, feeding.batch_size, self.remainder)
        self.skipped = 0
        self._feeding = feeding
        self._records: StoredRecords | DecodedRecords = StoredRecords(self.index)

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
        table = read_table(self.index.shard_paths, columns)
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
        draws = self.order.draw(epoch, positions)
        # Padding draws a row once more: no copy's number in an epoch is as high as its length.
        real = real_records(step, self._feeding.batch_size, self.order.length)
        copies = draws.copies.copy()
        copies[real:] += self.order.length
        return dataclasses.replace(draws, copies=copies)

    def fetch(
        self, epoch: int, step: int, is_first: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reads one batch: its serialized records, view numbers and copy numbers, each [batch].

        In training, the places of skipped records are filled by others of the batch: a batch that
        is short would shift all that follow, so that no one could go on from a step of theirs.
        """
        draws = self.draw(int(epoch), int(step))
        verify = self._feeding.verify
        verified = verify == "always" or (verify == "first_epoch" and bool(is_first))
        read = [self._read(row, verified) for row in draws.rows.tolist()]
        kept = np.array([n for n, data in enumerate(read) if data is not None], np.int64)
        if self._training:
            kept = self._fill(kept, len(read))
        serialized = np.array([read[number] for number in kept], object)
        return serialized, draws.views[kept], draws.copies[kept]

    def _fill(self, kept: np.ndarray, size: int) -> np.ndarray:
        """Repeats the numbers of the records that are left, up to the batch's size."""
        if not len(kept):
            raise UserError(
                f"feeding.bad_records=skip must leave a record of every batch, but none of a batch "
                f"of {size} can be read; run ingest again, or raise feeding.batch_size."
            )
        return np.resize(kept, size)

    def _read(self, row: int, verify: bool) -> bytes | None:
        try:
            return self._records.read(row, verify)
        except UserError as error:
            if self._feeding.bad_records == "stop":
                raise
            self.skipped += 1
            _LOG.warning("Skipped record number %d: %s", self.skipped, error)
            return None
