"""Has Keras's `fit` read the epochs that it counts, wherever it begins to count."""

from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components.errors import UserError


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
                "SyncEpochs needs what input_fn has given for training, itself and not what was "
                "made of it; give it that."
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
