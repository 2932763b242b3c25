"""One batch, from drawing to pixels: which records, their bytes, their views. No TensorFlow.

`input_fn` is tf.data around it, `batches` an iterator of arrays.
"""

import dataclasses
import logging
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from image_pipeline.components.augment.keys import draw_crop_windows, fold, record_keys
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import Entry, RecordIndex
from image_pipeline.components.dataset.stored import ReplacedError, StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.budget import (
    Stage,
    Use,
    check_budget,
    fits,
    plan_indexed,
)
from image_pipeline.components.feeding.images import (
    BatchMaker,
    HeldImages,
    HeldMasks,
    check_places,
    load_mask,
    view_image,
)
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.read_ahead import ReadAhead, keep_shards
from image_pipeline.components.feeding.selection import make_order
from image_pipeline.components.order.batches import (
    batch_positions,
    real_records,
    share_by_owner,
    steps_per_epoch,
)
from image_pipeline.components.order.draws import Draws, Order
from image_pipeline.components.order.order import SequentialOrder
from image_pipeline.components.order.shards_order import ShardsOrder
from image_pipeline.components.views.fast import view_mask, view_pixels
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)

Arrays = dict[str, np.ndarray]

KEY, MIRRORED, WINDOW = "key", "mirrored", "window"
"""Of a batch of training: uint64 [batch], of which all random steps are drawn; bool [batch]; and
int32 [batch, 4], the crops' top, left, height and width in pixels."""
MADE_AHEAD = 2
"""Batches that are made while one is used."""
ROW, CLASS, SERIALIZED = "row", "class", "serialized"
"""Of each batch: int64 [batch], rows of the index; int64 [batch], numbers in the index's `classes`;
object [batch], whole records, if columns are asked for."""


class BatchReader:
    """Batches of some shards' records, in an exact order: pure functions of epoch and step.

    Threads may share it.
    """

    def __init__(
        self,
        index: RecordIndex,
        view: ViewOptions,
        feeding: FeedingOptions,
        passes: Passes,
        columns: Sequence[record.Column] = (),
        rows: np.ndarray | None = None,
    ):
        """Chooses the order; opens shards only when they are read, but for their first record.

        Args:
          index: of the records, of one data set or several.
          view: the model's input size.
          feeding: which records, in which batches.
          passes: their seed decides the order of training, together with the epoch; their worker,
            which part of each batch is read.
          columns: further columns to read; with `record.MASK_COLUMN`, masks.
          rows: int64 [n], the only rows of the index that are read, in their order; None to read
            those that the options choose, as they order them.

        Raises:
          UserError: if no record is selected, an option does not fit the data set, or a file that
            images are read from in place is gone or was changed.
        """
        self.index = index
        self.order: Order = (
            make_order(index, feeding, passes.training, passes.seed)
            if rows is None
            else SequentialOrder(rows)
        )
        self.remainder = feeding.remainder if passes.training else "keep"
        self.steps = steps_per_epoch(self.order.length, feeding.batch_size, self.remainder)
        self.skipped = 0
        self._feeding, self._view, self._passes = feeding, view, passes
        self._crop = feeding.crop if passes.training else None
        self._has_masks = record.MASK_COLUMN in columns
        self._has_columns = any(column != record.MASK_COLUMN for column in columns)
        self._held: HeldImages | None = None
        self._held_masks: HeldMasks | None = None
        self._open()
        self.in_store = self._records.in_store
        check_places(self._records)

    def _open(self) -> None:
        """Makes what a fork cannot take over: threads, and locks that one of them may hold."""
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._first_epoch = sys.maxsize  # that this process reads
        self._maker = BatchMaker(self._view)
        feeding = self._feeding
        kept = keep_shards(self.index, feeding, self._passes) if feeding.cache_bytes else None
        self._records = StoredRecords(self.index, kept=kept)
        self._ahead: ReadAhead | None = None
        if isinstance(self.order, ShardsOrder) and self._records.in_store:
            shared = self.order, self.index, self._records
            self._ahead = ReadAhead(*shared, self._feeding, self._passes, self.steps)
        self._announced: dict[tuple[int, int], tuple[Arrays, list[Entry]]] = {}
        for held in (self._held, self._held_masks):
            if held is not None:
                held.records = self._records

    def _open_in_fork(self) -> None:
        if os.getpid() != self._pid:
            self._open()

    def read(self, epoch: int, step: int) -> Arrays:
        """This worker's part of one batch.

        In training, others of the batch replace skipped records: a short batch would shift all that
        follow, so that training could not resume at one of them.

        Returns:
          What `draw` gives, of the records that are kept; "image" [batch, height, width, channels]
          of `view.dtype`; if there are masks, `record.MASK` uint8 [batch, height, width, 1]; and
          `SERIALIZED`, if there are columns.

        Raises:
          UserError: if a record is damaged, unless `feeding.bad_records` is skip, which it names.
        """
        # Which records, and what is random about their views: a function of seed, epoch and step.
        self._open_in_fork()
        with self._lock:
            announced = self._announced.pop((epoch, step), None)
            self._first_epoch = min(epoch, self._first_epoch)
        drawn, entries = announced or self._announce(epoch, step)
        try:
            # Read, decode, crop and resize, by all cores.
            made, bad = self._make(entries, drawn.get(WINDOW), epoch == self._first_epoch)
            numbers = self._replace(bad, len(entries)) if bad else np.arange(len(entries))
            if self._reads_whole_batches:
                numbers = numbers[slice(*self._passes.cut_share(len(numbers), self._feeding))]
            batch = drawn | made
            if len(numbers) < len(entries) or bad:
                batch = {name: values[numbers] for name, values in batch.items()}
            if self._has_columns:  # The records were verified with their images.
                own = [self._records.read(entries[number]) for number in numbers.tolist()]
                batch[SERIALIZED] = np.array(own, object)
        finally:
            if self.in_store:
                self._records.release(entries)
        return batch

    def announce(self, epoch: int, step: int) -> None:
        """Begins to fetch a batch's records, where they are in a store, for a later `read`."""
        self._open_in_fork()
        if self._ahead is not None:
            self._ahead.advance(epoch, step)
        announced = self._announce(epoch, step)
        if self._ahead is not None:
            self._ahead.release(epoch, self._list_positions(step))
        with self._lock:
            former = [self._announced.pop((epoch, step), None)]
            self._announced[epoch, step] = announced
            # Of an iteration of tf.data that was left, nobody reads what it has announced.
            while len(self._announced) > 2 * (self._feeding.ahead_batches + MADE_AHEAD):
                former.append(self._announced.pop(next(iter(self._announced))))
        self._release(former)

    def forget(self, epoch: int, step: int) -> None:
        """Forgets what was announced of a batch that nobody will read."""
        self._open_in_fork()
        with self._lock:
            former = self._announced.pop((epoch, step), None)
        self._release([former])
        if self._ahead is not None:
            self._ahead.close()

    def _release(self, announced: Sequence[tuple[Arrays, list[Entry]] | None]) -> None:
        for each in announced:
            if each is not None:
                self._records.release(each[1])

    def _announce(self, epoch: int, step: int) -> tuple[Arrays, list[Entry]]:
        drawn, entries = self._draw(epoch, step)
        if self.in_store:
            self._records.announce(entries)
        return drawn, entries

    @property
    def _reads_whole_batches(self) -> bool:
        """What takes a skipped record's place may come from another worker's part of the batch."""
        return self._feeding.bad_records == "skip"

    def draw(self, epoch: int, step: int) -> Arrays:
        """Which records this worker's part of a batch holds, and their views; none is read.

        Returns:
          `ROW`, `CLASS`, "height" and "width" of the stored images in pixels, int64 [batch] each;
          in training also `KEY` and `MIRRORED`, and `WINDOW` if crops are random.
        """
        return self._draw(epoch, step)[0]

    def _draw(self, epoch: int, step: int) -> tuple[Arrays, list[Entry]]:
        """What `draw` gives, and where the records are."""
        draws, passes, feeding = self.draw_records(epoch, step), self._passes, self._feeding
        rows, views, copies = draws.rows, draws.views, draws.copies
        if feeding.own_shards and passes.training:
            owners = (np.searchsorted(self.index.starts, rows, "right") - 1) % passes.workers
            own = share_by_owner(owners, passes.workers) == passes.worker
            rows, views, copies = rows[own], views[own], copies[own]
        elif not self._reads_whole_batches:
            start, stop = passes.cut_share(len(rows), feeding)
            rows, views, copies = rows[start:stop], views[start:stop], copies[start:stop]
        ahead = self._ahead
        found = None if ahead is None else ahead.find(epoch, self._list_positions(step))
        found = self.index.take(rows) if found is None else found
        entries = found.list_entries(rows)
        sizes = {"height": found.height, "width": found.width}
        drawn = {ROW: rows, CLASS: found.label, **sizes}
        drawn = {name: values.astype(np.int64) for name, values in drawn.items()}
        if not passes.training:
            return drawn, entries
        # With mirror images each crop comes twice, and both share all random steps.
        mirrors = feeding.many_views.mirror
        ids = np.ascontiguousarray(found.record_id[:, :8]).view(">i8")[:, 0].astype(np.int64)
        keys = record_keys(passes.seed, epoch, ids, copies)
        drawn[KEY] = fold(keys, views // 2 if mirrors else views)
        drawn[MIRRORED] = (views % 2 == 1) & mirrors
        if self._crop is not None:  # It is the first of the steps: number 0.
            sides = np.stack([drawn["height"], drawn["width"]], axis=1)
            drawn[WINDOW] = draw_crop_windows(sides, fold(drawn[KEY], 0), self._crop)
        return drawn, entries

    def _list_positions(self, step: int) -> list[int]:
        """The positions that this worker's part of a batch draws."""
        size, length = self._feeding.batch_size, self.order.length
        positions = batch_positions(step, size, length, self.remainder).tolist()
        if self._reads_whole_batches:
            return positions
        return positions[slice(*self._passes.cut_share(len(positions), self._feeding))]

    def draw_records(self, epoch: int, step: int) -> Draws:
        """Which records and views one batch holds, of all workers together."""
        size, length = self._feeding.batch_size, self.order.length
        draws = self.order.draw(epoch, batch_positions(step, size, length, self.remainder))
        # Padding draws a row once more: real copies' numbers are below the epoch's length.
        copies = draws.copies.copy()
        copies[real_records(step, size, length) :] += length
        return dataclasses.replace(draws, copies=copies)

    def _make(
        self, entries: Sequence[Entry], windows: np.ndarray | None, is_first: bool
    ) -> tuple[Arrays, set[int]]:
        """The views of records, and the numbers of those that cannot be read.

        `is_first` says whether the epoch is the first that this process reads.
        """
        count = len(entries)
        if windows is None and (taken := self._take_held(entries)):
            return taken, set()
        masks = self._maker.empty_masks(count) if self._has_masks else None
        verify = self._feeding.verify
        verified = verify == "always" or (verify == "first_epoch" and is_first)
        bad: set[int] = set()

        def fill(number: int, out: np.ndarray) -> None:
            entry, window = entries[number], None if windows is None else windows[number]
            try:
                if self._held is None:
                    view_image(self._records, entry, window, self._view, out, verified)
                else:
                    view_pixels(self._held.load(entry, verified), window, self._view, out)
                if masks is not None:  # Its record was verified with its image.
                    held = self._held_masks
                    mask = load_mask(self._records, entry) if held is None else held.load(entry)
                    view_mask(mask, window, self._view, masks[number])
            except UserError as error:
                self._skip(number, bad, error)

        made = {"image": self._maker.make(fill, count)}
        return made if masks is None else made | {record.MASK: masks}, bad

    def _take_held(self, entries: Sequence[Entry]) -> Arrays:
        """Copies of held images (and masks) that already are views; nothing, if they are not."""
        if self._held is None:
            return {}
        view, taken = self._view, {}
        rows = np.array([entry.row for entry in entries], np.int64)
        size = (view.height_px, view.width_px)
        outs: list[Any] = [("image", self._held, (*size, view.channels), self._maker.empty)]
        if self._has_masks:
            outs.append((record.MASK, self._held_masks, (*size, 1), self._maker.empty_masks))
        for name, held, shape, empty in outs:
            if held is None or not held.can_take(rows, shape):
                return {}
            taken[name] = empty(len(rows))
            held.take(rows, taken[name])
        return taken

    def _skip(self, number: int, bad: set[int], error: UserError) -> None:
        """Notes a record that cannot be read."""
        if self._feeding.bad_records == "stop" or isinstance(error, ReplacedError):
            raise error
        with self._lock:  # Several threads read images.
            self.skipped += 1
            bad.add(number)
            _LOG.warning("Skipped record number %d: %s", self.skipped, error)

    def _replace(self, bad: set[int], size: int) -> np.ndarray:
        """The numbers of the remaining records; in training, repeated up to the batch's size."""
        kept = np.setdiff1d(np.arange(size), sorted(bad))
        if not self._passes.training:
            return kept
        if not len(kept):
            raise UserError(
                f"feeding.bad_records=skip must leave a record of every batch, but none of a batch "
                f"of {size} can be read; run ingest again, or raise feeding.batch_size."
            )
        return np.resize(kept, size)

    def read_serialized(self, rows: np.ndarray) -> np.ndarray:
        """Reads whole records (rows int64 [n]): object [n], each a serialized tf.train.Example."""
        entries = self.index.locate(rows)
        self._records.announce(entries)
        try:
            return np.array([self._records.read(entry, verify=True) for entry in entries], object)
        finally:
            self._records.release(entries)

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
        index = self.index
        stages = plan_indexed(self._feeding, self._view, index.record_bytes, index.nbytes, use)
        if self.in_store:
            ahead, size = self._feeding.ahead_batches, self._feeding.batch_size
            made_of = f"{ahead} ahead_batches x {size} batch_size, encoded"
            stages.append(Stage("fetched ahead", ahead * size * index.record_bytes, made_of))
        if self._ahead is not None:
            stages.append(self._ahead.plan())
            check_budget(stages[-1:], self._feeding, use)  # Which `batches` asks for nothing else.
        return stages

    def hold_decoded(self, others: list[Stage]) -> list[Stage]:
        """From now on decodes each image only once, if all fit beside the other stages as pixels.

        Returns:
          The stage of the held images, or nothing.
        """
        index, channels = self.index, self._view.channels
        value_bytes = np.dtype(index.dtype).itemsize
        planes = channels * value_bytes + self._has_masks
        how, can_hold = "decoded whenever they are read", self._feeding.hold_decoded
        stage, chosen = (
            Stage("decoded images", 0, index.dtype),
            f"{how} (feeding.hold_decoded=false)",
        )
        for rows in index.scan() if can_hold else ():
            size_bytes = int((rows.height.astype(np.int64) * rows.width).sum()) * planes
            stage = dataclasses.replace(stage, size_bytes=stage.size_bytes + size_bytes)
            if not (can_hold := fits([*others, stage], self._feeding)):
                chosen = f"{how}: half of feeding.memory_fraction is less than their pixels"
                break  # The sizes of a large data set's images are not read to the last.
        if can_hold:
            chosen = f"{stage.size_bytes / 1e6:.0f} MB of pixels, decoded once and held"
            self._held = HeldImages(self._records, channels)
            self._held_masks = HeldMasks(self._records) if self._has_masks else None
        _LOG.info(
            "Reading %d shards by their index, in any order: %s.", len(index.shard_paths), chosen
        )
        return [] if self._held is None else [stage]
