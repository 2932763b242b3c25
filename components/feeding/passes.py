"""Passes over the records: which epochs an iteration of a data set has, and from which batch on.

TensorFlow is imported by what gives data sets only: `reader` knows passes, too.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.order.batches import worker_bounds

if TYPE_CHECKING:
    import tensorflow as tf

    from image_pipeline.components.feeding.iterations import Iterations

Mode = Literal["train", "eval"]
Again = Literal["next", "same"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Passes:
    """Which passes over the records a reader makes; the arguments are those of `input_fn`."""

    mode: Mode
    seed: int = 0
    epochs: int | None = 1
    first_epoch: int = 0
    first_step: int = 0
    worker: int = 0
    workers: int = 1
    again: Again = "same"

    def __post_init__(self) -> None:
        if self.again not in ("next", "same"):
            raise UserError(f"again must be 'next' or 'same', got {self.again!r}.")
        for name, least in (("first_epoch", 0), ("first_step", 0), ("epochs", 1)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | np.integer) and value >= least):
                raise UserError(f"{name} must be a whole number of at least {least}, got {value}.")
        if self.mode not in ("train", "eval"):
            raise UserError(f"mode must be 'train' or 'eval', got {self.mode!r}.")
        if not 0 <= self.worker < self.workers:
            raise UserError(
                f"worker must be from 0 to workers - 1, got {self.worker} of {self.workers}."
            )

    @property
    def training(self) -> bool:
        """Whether order and views are random."""
        return self.mode == "train"

    def share_of_batch(self, feeding: FeedingOptions) -> int:
        """Records of each batch that this worker reads.

        Raises:
          UserError: if the workers cannot share a batch equally, or would separate mixed images.
        """
        size, rest = divmod(feeding.batch_size, self.workers)
        if rest:
            raise UserError(
                f"feeding.batch_size must be a multiple of the {self.workers} workers that share "
                f"each batch, got {feeding.batch_size}; set feeding.batch_size."
            )
        if feeding.mixes_labels and self.training and size % 2:
            raise UserError(
                f"mixup and cutmix mix images two by two, so each of the {self.workers} workers "
                f"must have an even share of a batch, got {size}; set feeding.batch_size."
            )
        return size

    def cut_share(self, count: Any, feeding: FeedingOptions) -> tuple[Any, Any]:
        """Where this worker's part of a batch of `count` records starts and ends.

        Whole numbers, or scalar tensors of them.
        """
        if self.workers == 1:
            return 0, count
        if not (feeding.mixes_labels and self.training):
            return worker_bounds(count, self.worker, self.workers)
        # Images that are mixed with each other stay together.
        start, stop = worker_bounds((count + 1) // 2, self.worker, self.workers)
        return 2 * start, (2 * stop + count - abs(2 * stop - count)) // 2  # min(2 * stop, count)

    def first_step_of(self, epoch: "tf.Tensor") -> "tf.Tensor":
        """The number of the first batch of an epoch (int64 scalar): int64 scalar."""
        import tensorflow as tf

        is_first = tf.equal(epoch, self.first_epoch)
        return tf.where(is_first, tf.constant(self.first_step, tf.int64), 0)

    @property
    def goes_on(self) -> bool:
        """Whether each iteration has other epochs than those before it."""
        return self.training and self.again == "next"

    def count_epochs(self) -> "tf.data.Dataset":
        """The numbers of the epochs: int64 scalars; in each iteration others, if it goes on."""
        from image_pipeline.components.feeding.iterations import ENDLESS

        if not self.goes_on:
            return self._count_from(self.first_epoch)
        stride = ENDLESS if self.epochs is None else self.epochs
        return self.iterations.flat_map(
            lambda number: self._count_from(self.first_epoch + number * stride)
        )

    @functools.cached_property
    def iterations(self) -> "Iterations":
        """Numbers the iterations, where each has other epochs."""
        from image_pipeline.components.feeding.iterations import Iterations

        more = None
        if self.first_step and self.epochs is not None:
            # Keras assumes the first iteration's length for all, and would cut them short.
            more = (
                f"they begin at first_step={self.first_step}, and later ones would be longer: "
                f"make another data set, with first_epoch={self.first_epoch + self.epochs}, or "
                "set again='same'"
            )
        return Iterations(more)

    def count_batches(self, steps: int | None) -> int:
        """The batches of an iteration, or tf.data's constant for as many as there will be.

        Args:
          steps: batches an epoch; None where only reading tells.
        """
        import tensorflow as tf

        if self.epochs is None:
            return tf.data.INFINITE_CARDINALITY
        if steps is None:
            return tf.data.UNKNOWN_CARDINALITY
        return self.epochs * steps - self.first_step

    def _count_from(self, first: "int | tf.Tensor") -> "tf.data.Dataset":
        import tensorflow as tf

        counter = tf.data.Dataset.counter(first)
        return counter if self.epochs is None else counter.take(self.epochs)
