"""Batches of some shards: which records, read and viewed, epoch after epoch."""

import logging
from collections.abc import Callable, Sequence

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.augment import crop, draws
from image_pipeline.components.feeding import memory, service
from image_pipeline.components.feeding.batches import worker_bounds
from image_pipeline.components.feeding.compiled import compile_or_keep, once
from image_pipeline.components.feeding.finishing import KEY, MIRRORED
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.record_views import view_record
from image_pipeline.components.feeding.records import open_records
from image_pipeline.components.feeding.streaming import StreamedRecords
from image_pipeline.components.views.options import ViewOptions

Tensors = dict[str, tf.Tensor]
_LOG = logging.getLogger(__name__)


def make_keys(
    seed: tf.Tensor, epoch: tf.Tensor, ids: tf.Tensor, copies: tf.Tensor, views: tf.Tensor
) -> tf.Tensor:
    """Views' keys, uint64 [batch], of seed, epoch, record ids, copies and numbers of views."""
    return draws.fold(draws.record_keys(seed, epoch, ids, copies), views)


def _compile_keys() -> Callable[..., tf.Tensor]:
    # Sixty small ops on integers: a tenth of a 32-pixel image's time.
    number, numbers = tf.constant(0, tf.int64), tf.zeros([2], tf.int64)
    return compile_or_keep(
        make_keys,
        (number, number, numbers, numbers, numbers),
        "Keys are drawn by TensorFlow's kernels, in the same bits; set feeding.compiled=false.",
    )


class BatchReader:
    """Reads the views of some shards, batch by batch."""

    def __init__(
        self,
        paths: list[str],
        view: ViewOptions,
        feeding: FeedingOptions,
        passes: Passes,
        columns: Sequence[str] = (),
        keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
        use: memory.Use | None = None,
    ):
        """Opens the records, and checks what reading them will hold in memory.

        `use` is what the views are for, None for the mode of the passes.

        Raises:
          UserError: if an option or the workers do not fit, or the memory is too small.
        """
        self._view = view
        self._feeding = feeding
        self._passes = passes
        self._columns = tuple(columns)
        self._batch_size = passes.share_of_batch(feeding)
        self._make_keys: Callable[..., tf.Tensor] = make_keys
        if passes.training and feeding.compiled and feeding.data_service is None:
            self._make_keys = once("keys", _compile_keys)
        self._records = open_records(
            paths, feeding, view, passes.training, passes.seed, columns, keep
        )
        self._records.check_step(passes.first_step)
        stages = self._records.plan_memory(use or passes.mode)
        stages += self._records.hold_decoded(stages)
        _LOG.info(memory.check_budget(stages, feeding, use or passes.mode))

    def read(self) -> tf.data.Dataset:
        """All passes, one after the other.

        Returns:
          Dicts of "image" uint8 [batch, height, width, channels], "label" string [batch], each
          column [batch] under its feature key, and in training `KEY` uint64 [batch] and `MIRRORED`
          bool [batch].
        """
        read_epoch: Callable[[tf.Tensor], tf.data.Dataset] = self._read_epoch
        if self._passes.training and self._feeding.data_service is not None:
            address = self._feeding.data_service
            serve = service.serve(address, self._read_share, self._batch_size)

            def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
                return serve(epoch).batch(self._batch_size, drop_remainder=self._is_static)

        # The epoch's number reaches every key, and the functions are traced once for all epochs.
        batches = self._passes.count_epochs().flat_map(read_epoch)
        if self._may_be_empty:
            batches = batches.filter(lambda batch: tf.size(batch["label"]) > 0)
        steps = None if self._may_be_empty else self._records.steps
        number = self._passes.count_batches(steps)
        if number == tf.data.UNKNOWN_CARDINALITY:
            return batches
        return batches.apply(tf.data.experimental.assert_cardinality(number))

    @property
    def _may_be_empty(self) -> bool:
        """Whether skipped records may leave nothing of a batch."""
        return not self._passes.training and self._feeding.bad_records == "skip"

    @property
    def _is_static(self) -> bool:
        """Whether every batch has the same number of records."""
        return self._passes.training and self._feeding.remainder != "keep"

    def _read_epoch(self, epoch: tf.Tensor) -> tf.data.Dataset:
        passes = self._passes
        is_first = tf.equal(epoch, passes.first_epoch)
        start = tf.where(is_first, tf.constant(passes.first_step, tf.int64), 0)
        drawn = self._records.draw_epoch(epoch, start)
        # One batch is viewed, by all cores, while the one before it is handed on.
        return drawn.map(
            lambda batch: self.view_batch(batch, epoch, is_first),
            num_parallel_calls=2,
            deterministic=True,
        )

    def _take_share(self, drawn: Tensors) -> Tensors:
        """This worker's part of a batch, as `batches.worker_slice` cuts it."""
        passes = self._passes
        count = tf.size(drawn["copy"])
        if self._feeding.mixes_labels and passes.training:  # which never parts two that are mixed
            start, stop = worker_bounds((count + 1) // 2, passes.worker, passes.workers)
            start, stop = 2 * start, tf.minimum(2 * stop, count)
        else:
            start, stop = worker_bounds(count, passes.worker, passes.workers)
        return {name: values[start:stop] for name, values in drawn.items()}

    def view_batch(self, drawn: Tensors, epoch: tf.Tensor, is_first: tf.Tensor) -> Tensors:
        """The views of drawn records (see `parse.as_drawn`) in an epoch, as `read` gives them."""
        # What takes a skipped record's place may come from another worker's part.
        shares_views = self._feeding.bad_records == "skip"
        if not shares_views:
            drawn = self._take_share(drawn)
        drawn, windows = self._draw_keys(drawn, epoch)
        viewed = self._records.make_views(drawn, windows, is_first)
        if shares_views:
            viewed = self._take_share(viewed)
        view = self._view
        count = self._batch_size if self._is_static else None
        shape = [count, view.height_px, view.width_px, view.channels]
        viewed["image"] = tf.ensure_shape(viewed["image"], shape)
        return {
            name: values if name == contract.IMAGE_INPUT else tf.ensure_shape(values, [count])
            for name, values in self._select(viewed).items()
        }

    def _draw_keys(self, drawn: Tensors, epoch: tf.Tensor) -> tuple[Tensors, tf.Tensor | None]:
        """Adds each view's key, and whether it is mirrored; and draws the crops."""
        if not self._passes.training:
            return drawn, None
        # With mirror images each crop comes twice, and both have all random steps in common.
        mirrors = self._feeding.many_views.mirror
        views = drawn["view"] // 2 if mirrors else drawn["view"]
        seed = tf.constant(self._passes.seed, tf.int64)
        keys = self._make_keys(seed, epoch, drawn["record_id"], drawn["copy"], views)
        drawn = drawn | {KEY: keys, MIRRORED: (drawn["view"] % 2 == 1) & mirrors}
        if self._feeding.crop is None:
            return drawn, None
        sizes = tf.stack([drawn["height"], drawn["width"]], axis=1)
        # The crop is the first of the steps: number 0.
        return drawn, crop.draw_crop_windows(sizes, draws.fold(keys, 0), self._feeding.crop)

    def _select(self, viewed: Tensors) -> Tensors:
        further = (*((KEY, MIRRORED) if self._passes.training else ()), *self._columns)
        return {
            contract.IMAGE_INPUT: viewed["image"],
            contract.LABEL_INPUT: viewed["label"],
            **{key: viewed[key] for key in further},
        }

    def _read_share(self, epoch: tf.Tensor, share: service.Share) -> tf.data.Dataset:
        """What one worker of a data service reads, record by record."""
        assert isinstance(self._records, StreamedRecords)  # options see to it
        is_first = tf.equal(epoch, self._passes.first_epoch)
        done = self._passes.first_step * self._feeding.batch_size
        skipped = tf.where(is_first, tf.constant(done, tf.int64), 0)
        number, shares = share
        batches = (
            self._records.read_serialized(epoch)
            .skip(skipped)
            .batch(self._feeding.batch_size, drop_remainder=self._feeding.remainder == "drop")
        )
        own = batches.map(lambda batch: self._take_share({"copy": batch})["copy"])
        return (
            own.unbatch()
            .shard(shares, number)
            .map(
                lambda one: self._view_record(one, epoch),
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=True,
            )
        )

    def _view_record(self, serialized: tf.Tensor, epoch: tf.Tensor) -> Tensors:
        assert isinstance(self._records, StreamedRecords)
        drawn, windows = self._draw_keys(self._records.parse_records(serialized[None]), epoch)
        drawn = {name: values[0] for name, values in drawn.items()}
        image = view_record(drawn, None if windows is None else windows[0], self._view)
        return self._select(drawn | {"image": image})
