"""The stages from shards to batches of images, for `input_fn` and whatever needs a part of it.

Each stage is a data set made from the one before it, over all epochs: the first batches of an epoch
are made alongside the last of the one before. The epoch's number is passed along, so that all
functions are traced only once.
"""

import logging
from collections.abc import Callable, Sequence

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.feeding import budget
from image_pipeline.components.feeding.keys import KEY, MIRRORED, KeyMaker
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import Tensors
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.records import open_records
from image_pipeline.components.feeding.served_images import ServedImages
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


class Stages:
    """Which records, and their images, batch by batch."""

    def __init__(
        self,
        paths: list[str],
        view: ViewOptions,
        feeding: FeedingOptions,
        passes: Passes,
        columns: Sequence[str] = (),
        keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
        use: budget.Use | None = None,
    ):
        """Opens the records, and checks what reading them will hold in memory.

        `use` is what the images are for, None for the mode of the passes.

        Raises:
          UserError: if an option or the workers do not fit, or the memory is too small.
        """
        self._view = view
        self._feeding = feeding
        self._passes = passes
        self._columns = tuple(columns)
        self._batch_size = passes.share_of_batch(feeding)
        self._keys = KeyMaker(passes.seed, feeding) if passes.training else None
        self._records = open_records(
            paths, feeding, view, passes.training, passes.seed, columns, keep
        )
        self._records.check_step(passes.first_step)
        held = self._records.plan_memory(use or passes.mode)
        held += self._records.hold_decoded(held)
        _LOG.info(budget.check_budget(held, feeding, use or passes.mode))

    def read(self) -> tf.data.Dataset:
        """Runs all stages up to the images.

        Returns:
          Dicts of "image" uint8 [batch, height, width, channels], "label" string [batch], each
          column [batch] under its feature key, and in training `KEY` uint64 [batch] and `MIRRORED`
          bool [batch].
        """
        passes, feeding = self._passes, self._feeding
        epochs = passes.count_epochs()
        if passes.training and feeding.data_service is not None:
            served = ServedImages(self._records, self._view, feeding, passes, self._columns)
            images = served.read(epochs, feeding.data_service).map(self._select)
        else:
            images = self.make_images(self.draw(epochs))
        may_be_empty = not passes.training and feeding.bad_records == "skip"
        if may_be_empty:
            images = images.filter(lambda batch: tf.size(batch[contract.LABEL_INPUT]) > 0)
        number = passes.count_batches(None if may_be_empty else self._records.steps)
        if number == tf.data.UNKNOWN_CARDINALITY:
            return images
        return images.apply(tf.data.experimental.assert_cardinality(number))

    def draw(self, epochs: tf.data.Dataset) -> tf.data.Dataset:
        """Which records the batches have: pairs of the epoch and what `Records.draw_epoch` returns.

        Args:
          epochs: their numbers, int64 scalars.
        """

        def draw_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            drawn = self._records.draw_epoch(epoch, self._passes.first_step_of(epoch))
            return drawn.map(lambda batch: (epoch, batch))

        return epochs.flat_map(draw_epoch)

    def make_images(self, drawn: tf.data.Dataset) -> tf.data.Dataset:
        """Reads, decodes, crops and resizes what `draw` returns; returns as `read`."""
        # One batch is made, by all cores, while the one before it is passed on.
        return drawn.map(self._make_batch, num_parallel_calls=2, deterministic=True)

    def _make_batch(self, epoch: tf.Tensor, drawn: Tensors) -> Tensors:
        # What takes a skipped record's place may come from another worker's part.
        shares_images = self._feeding.bad_records == "skip"
        drawn = drawn if shares_images else self._take_share(drawn)
        drawn, windows = (drawn, None) if self._keys is None else self._keys.add(drawn, epoch)
        is_first = tf.equal(epoch, self._passes.first_epoch)
        batch = self._records.make_images(drawn, windows, is_first)
        return self._select(self._take_share(batch) if shares_images else batch)

    def _take_share(self, batch: Tensors) -> Tensors:
        """This worker's part of a batch."""
        start, stop = self._passes.cut_share(tf.size(batch["copy"]), self._feeding)
        return {name: values[start:stop] for name, values in batch.items()}

    def _select(self, batch: Tensors) -> Tensors:
        """The parts of a batch that `read` returns, with the known shapes."""
        view = self._view
        size = {contract.IMAGE_INPUT: [view.height_px, view.width_px, view.channels]}
        is_static = self._passes.training and self._feeding.remainder != "keep"
        count = self._batch_size if is_static else None
        further = ((KEY, MIRRORED) if self._passes.training else ()) + self._columns
        names = (contract.IMAGE_INPUT, contract.LABEL_INPUT, *further)
        return {name: tf.ensure_shape(batch[name], [count, *size.get(name, [])]) for name in names}
