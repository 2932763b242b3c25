"""Callbacks that count steps and epochs as the data does, where Keras counts otherwise.

With several steps in a call (`steps_per_execution`), Keras makes as many in an epoch's last call as
in every other one, and so takes them from the next epoch, whose last batches are then missing. Here
the last call makes the steps that are left.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components import progress
from image_pipeline.components.errors import UserError


class StepsCallback(keras.callbacks.Callback):
    """A callback that learns after each call of the model how many steps it made."""

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Restarts the count, as Keras does."""
        self._done = 0

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Counts the steps up to this one; Keras's number may lie beyond the epoch."""
        done = min(batch + 1, self.params["steps"])
        count, self._done = done - self._done, done
        self.on_steps(count)

    def on_steps(self, count: int) -> None:
        """Called after each call of the model, with its number of steps."""
        raise NotImplementedError


class WholeEpochs(keras.callbacks.Callback):
    """Gives an epoch's last call the remaining number of steps.

    For each number of steps the model has a function of its own, compiled when it is first called.
    """

    def __init__(self) -> None:
        super().__init__()
        self._usual = 1
        self._functions: dict[int, Callable] = {}

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Keeps the function that Keras made; those of an earlier phase are of other weights."""
        self._usual = self.model.steps_per_execution
        self._functions = {self._usual: self.model.train_function}

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Chooses the function; it reads `steps_per_execution` when it is traced."""
        count = min(self._usual, self.params["steps"] - batch)
        self.model.steps_per_execution = count
        if count not in self._functions:
            self.model.make_train_function(force=True)
            self._functions[count] = self.model.train_function
        self.model.train_function = self._functions[count]

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Restores the model for evaluation and whatever comes next."""
        self.model.steps_per_execution = self._usual
        self.model.train_function = self._functions[self._usual]


def hide_length(data: tf.data.Dataset) -> tf.data.Dataset:
    """Hides the data's length from Keras, which counts a short call as a long one.

    Args:
      data: never read to the end, since every epoch's number of steps is given.
    """
    return data.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


class SyncEpochs(keras.callbacks.Callback):
    """`fit`'s epoch n reads the data's epoch n: after a restart, too.

    Data for training give their next epoch at each iteration, and begin with the first in each
    process. Where `fit` itself begins later, by `initial_epoch` or by
    `keras.callbacks.BackupAndRestore(save_freq="epoch")`, it would read the first epochs again.
    With this callback, what is trained is what an uninterrupted `fit` would have trained.
    """

    def __init__(self, data: tf.data.Dataset):
        """Takes what `fit` reads.

        Args:
          data: what `input_fn` has given; `fit` may get it, or what was made of it by `map` and
            the like.

        Raises:
          UserError: if it is no data of that kind, or does not begin with epoch 0.
        """
        super().__init__()
        passes = getattr(data, "passes", None)
        if passes is None or not passes.goes_on:
            raise UserError(
                "SyncEpochs needs the very data set that input_fn returned for training, not one "
                "made from it; pass that."
            )
        if passes.epochs is None or passes.first_epoch or passes.first_step:
            raise UserError(
                "SyncEpochs needs data that begin with epoch 0 and end with each epoch of fit, got "
                f"first_epoch={passes.first_epoch}, first_step={passes.first_step} and "
                f"epochs={passes.epochs}; leave them out of input_fn."
            )
        self._iterations = passes.iterations

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Lets the iteration that follows be this epoch's."""
        self._iterations.go_to(epoch)


class StepCounter(StepsCallback):
    """Counts training's steps as progress."""

    def on_steps(self, count: int) -> None:
        """Counts."""
        progress.advance(count)
