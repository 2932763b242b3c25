"""Records read from shards in any order: exact, instantly resumable, balanced, any subset."""

import dataclasses
import logging
import threading
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import Entry, RecordIndex
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.batch_maker import BatchMaker
from image_pipeline.components.feeding.budget import Stage, Use, fits, plan_indexed
from image_pipeline.components.feeding.images import (
    HeldImages,
    HeldMasks,
    check_places,
    load_mask,
    view_image,
)
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.python_calls import call_python
from image_pipeline.components.feeding.selection import make_order
from image_pipeline.components.order.batches import batch_positions, real_records, steps_per_epoch
from image_pipeline.components.order.draws import Draws
from image_pipeline.components.views.fast import view_mask, view_pixels
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


class IndexedRecords:
    """The records of some shards, epoch by epoch, in an exact order."""

    def __init__(
        self,
        index: RecordIndex,
        view: ViewOptions,
        feeding: FeedingOptions,
        passes: Passes,
        columns: Sequence[record.Column] = (),
    ):
        """Chooses the order; opens shards only when they are read, but for their first record.

        Args:
          index: of the records, of one data set or several.
          view: the model's input size.
          feeding: which records, in which batches.
          passes: their seed decides the order of training, together with the epoch.
          columns: further scalar columns to read; with `record.MASK_COLUMN`, masks.

        Raises:
          UserError: if no record is selected, an option does not fit the data set, or a file that
            images are read from in place is gone or was changed.
        """
        self.index = index
        self.order = make_order(index, feeding, passes.training, passes.seed)
        self.remainder = feeding.remainder if passes.training else "keep"
        self._training = passes.training
        self.steps = steps_per_epoch(self.order.length, feeding.batch_size, self.remainder)
        self.skipped = 0
        self._lock = threading.Lock()
        self._feeding = feeding
        self._view = view
        self._has_masks = record.MASK_COLUMN in columns
        self._columns = [column for column in columns if column != record.MASK_COLUMN]
        self._maker = BatchMaker(view)
        self._records = StoredRecords(index)
        check_places(self._records)
        self._held: HeldImages | None = None
        self._held_masks: HeldMasks | None = None

    def list_batches(self, epoch: tf.Tensor, first_step: tf.Tensor) -> tf.data.Dataset:
        """The numbers (int64 scalars) of the batches of one epoch, from `first_step` on."""
        del epoch  # Each epoch has the same numbers.
        return tf.data.Dataset.range(first_step, self.steps)

    def draw_batch(self, epoch: tf.Tensor, batch: tf.Tensor) -> parse.Tensors:
        """Which records a batch holds; none is read.

        Args:
          epoch: int64 scalar.
          batch: what `list_batches` gives for it: its number, int64 scalar.

        Returns:
          "record_id", "view", "copy", "height", "width" and "row", int64 [batch] each, and "label",
          string [batch].
        """
        names = ("row", "view", "copy", "record_id", "height", "width", "class")
        dtypes = [tf.int64] * len(names)
        values = call_python(self.draw_columns, [epoch, batch], dtypes)
        for tensor in values:
            tensor.set_shape([None])
        drawn = dict(zip(names, values, strict=True))
        drawn["label"] = tf.gather(tf.constant(self.index.classes), drawn.pop("class"))
        return drawn

    def _read_columns(self, rows: tf.Tensor) -> parse.Tensors:
        """The further columns of rows, whose records were verified with their images."""
        if not self._columns:
            return {}
        (serialized,) = call_python(
            lambda rows: [self.read_serialized(rows, verify=False)], [rows], [tf.string]
        )
        serialized.set_shape([None])
        return parse.parse_batch(serialized, self._columns)

    def read_serialized(self, rows: np.ndarray, verify: bool) -> np.ndarray:
        """Reads whole records (rows int64 [n]): object [n], each a serialized tf.train.Example."""
        entries = self.index.locate(rows)
        return np.array([self._records.read(entry, verify) for entry in entries], object)

    def make_images(
        self, drawn: parse.Tensors, windows: tf.Tensor | None, is_first: tf.Tensor
    ) -> parse.Tensors:
        """Reads, decodes, crops and resizes the images of a batch.

        In training, others of the batch replace skipped records: a short batch would shift all that
        follow, so that training could not resume at one of them.

        Args:
          drawn: what `draw_batch` gives, or a part of it.
          windows: int32 [batch, 4], each image's crop; None for the deterministic view.
          is_first: bool scalar, whether the epoch is the first that this process reads.

        Returns:
          `drawn` without what was skipped, the further columns, "image" [batch, height, width,
          channels] of `view.dtype` and, if there are masks, `record.MASK` uint8 [batch, height,
          width, 1].
        """
        windows = tf.zeros([0, 4], tf.int32) if windows is None else windows
        inputs = [drawn["row"], windows, is_first]
        dtypes = [tf.as_dtype(self._view.dtype), tf.int64, *([tf.uint8] if self._has_masks else [])]
        images, kept, *masks = call_python(self.make_row_images, inputs, dtypes)
        kept.set_shape([None])
        if self._feeding.bad_records == "skip":
            drawn = {name: tf.gather(values, kept) for name, values in drawn.items()}
        made = {"image": images, **dict(zip([record.MASK], masks, strict=False))}
        return drawn | self._read_columns(drawn["row"]) | made

    def make_row_images(
        self, rows: np.ndarray, windows: np.ndarray, is_first: bool
    ) -> tuple[np.ndarray, ...]:
        """The images of some rows, the numbers of those that are kept (int64), and their masks."""
        numbers = np.arange(len(rows))
        if not len(windows) and (taken := self._take_held(rows)):
            return taken[0], numbers, *taken[1:]
        masks = self._maker.empty_masks(len(rows)) if self._has_masks else None
        entries = self.index.locate(rows)
        verify = self._feeding.verify
        verified = verify == "always" or (verify == "first_epoch" and bool(is_first))
        bad: set[int] = set()

        def fill(number: int, out: np.ndarray) -> None:
            entry, window = entries[number], windows[number] if len(windows) else None
            try:
                self._view_image(entry, window, out, verified)
                if masks is not None:
                    self._view_mask(entry, window, masks[number])
            except UserError as error:
                self._skip(number, bad, error)

        images = self._maker.make(fill, len(rows))
        made = (images,) if masks is None else (images, masks)
        if bad:
            numbers = self._fill(np.setdiff1d(numbers, sorted(bad)), len(rows))
            made = tuple(each[numbers] for each in made)
        return made[0], numbers, *made[1:]

    def _take_held(self, rows: np.ndarray) -> list[np.ndarray]:
        """Copies of held images (and masks) that already are views; nothing, if they are not."""
        view, taken = self._view, []
        size = (view.height_px, view.width_px)
        outs = [(self._held, (*size, view.channels), self._maker.empty)]
        outs += [(self._held_masks, (*size, 1), self._maker.empty_masks)] * self._has_masks
        for held, shape, empty in outs:
            if held is None or not held.can_take(rows, shape):
                return []
            taken.append(empty(len(rows)))
            held.take(rows, taken[-1])
        return taken

    def _view_mask(self, entry: Entry, window: np.ndarray | None, out: np.ndarray) -> None:
        """Makes the view of a mask, whose record was verified with its image."""
        held = self._held_masks
        mask = load_mask(self._records, entry) if held is None else held.load(entry)
        view_mask(mask, window, self._view, out)

    def _view_image(
        self, entry: Entry, window: np.ndarray | None, out: np.ndarray, verify: bool
    ) -> None:
        """Makes the view of an image."""
        if self._held is None:
            view_image(self._records, entry, window, self._view, out, verify)
        else:
            view_pixels(self._held.load(entry, verify), window, self._view, out)

    def _skip(self, number: int, bad: set[int], error: UserError) -> None:
        """Notes a record that cannot be read."""
        if self._feeding.bad_records == "stop":
            raise error
        with self._lock:  # Several threads read images.
            self.skipped += 1
            bad.add(number)
            _LOG.warning("Skipped record number %d: %s", self.skipped, error)

    def _fill(self, kept: np.ndarray, size: int) -> np.ndarray:
        """In training, repeats the numbers of the remaining records up to the batch's size."""
        if not self._training:
            return kept
        if not len(kept):
            raise UserError(
                f"feeding.bad_records=skip must leave a record of every batch, but none of a batch "
                f"of {size} can be read; run ingest again, or raise feeding.batch_size."
            )
        return np.resize(kept, size)

    def count(self) -> int:
        """The number of records in an epoch; one that is drawn twice counts twice."""
        return self.order.length

    def check_step(self, first_step: int) -> None:
        """Raises UserError unless an epoch has a batch of this number."""
        if first_step >= self.steps:
            raise UserError(
                f"first_step must be less than the {self.steps} batches of an epoch, got "
                f"{first_step}; go on with first_step=0 of the next first_epoch."
            )

    def plan_memory(self, use: Use) -> list[Stage]:
        """What reading batches holds in memory."""
        record_bytes = int(self.index.length.mean())
        return plan_indexed(self._feeding, self._view, record_bytes, self.index.nbytes, use)

    def hold_decoded(self, others: list[Stage]) -> list[Stage]:
        """From now on decodes each image only once, if all fit beside the other stages as pixels.

        Returns:
          The stage of the held images, or nothing.
        """
        index, channels = self.index, self._view.channels
        value_bytes = np.dtype(index.dtype).itemsize
        planes = channels * value_bytes + self._has_masks
        size_bytes = int((index.height.astype(np.int64) * index.width).sum()) * planes
        stage = Stage("decoded images", size_bytes, index.dtype)
        if not self._feeding.hold_decoded:
            chosen = "decoded whenever they are read (feeding.hold_decoded=false)"
        elif not fits([*others, stage], self._feeding):
            chosen = "decoded whenever they are read: half of feeding.memory_fraction is less"
        else:
            chosen = "decoded once and held"
            self._held = HeldImages(self._records, channels)
            self._held_masks = HeldMasks(self._records) if self._has_masks else None
        _LOG.info(
            "Reading %d shards by their index, in any order: %.0f MB of pixels, %s.",
            *(len(index.shard_paths), size_bytes / 1e6, chosen),
        )
        return [] if self._held is None else [stage]

    def draw(self, epoch: int, step: int) -> Draws:
        """Which records and views one batch holds."""
        positions = batch_positions(
            step, self._feeding.batch_size, self.order.length, self.remainder
        )
        draws = self.order.draw(epoch, positions)
        # Padding draws a row once more: real copies' numbers are below the epoch's length.
        real = real_records(step, self._feeding.batch_size, self.order.length)
        copies = draws.copies.copy()
        copies[real:] += self.order.length
        return dataclasses.replace(draws, copies=copies)

    def draw_columns(self, epoch: int, step: int) -> list[np.ndarray]:
        """One batch's rows, views, copies, record ids, heights, widths, class numbers: int64 [n].

        A record id is given by its first eight bytes, as `augment.draws.read_record_ids` reads
        them.
        """
        draws = self.draw(int(epoch), int(step))
        found = self.index.take(draws.rows)
        ids = np.ascontiguousarray(found.record_id[:, :8]).view(">i8")[:, 0]
        columns = (found.height, found.width, found.label)
        drawn = [draws.rows, draws.views, draws.copies, ids, *columns]
        return [values.astype(np.int64) for values in drawn]
