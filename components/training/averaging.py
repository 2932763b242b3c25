"""Evaluation with averaged weights, where the optimizer keeps an average of them (`use_ema`).

Keras writes the average into the model when `fit` ends, as if that were the end of training: a
training that is resumed calls `fit` twice. Here the model has its own weights whenever a step is
made or a checkpoint is stored.
"""

import contextlib
from collections.abc import Iterator

import keras


def take_average(model: keras.Model) -> None:
    """Writes the average into the model, if there is one."""
    model.optimizer.finalize_variable_values(model.trainable_variables)


@contextlib.contextmanager
def averaged(model: keras.Model) -> Iterator[None]:
    """Inside, the model has the average of its weights, if there is one; then its own again."""
    own = [variable.numpy() for variable in model.trainable_variables]
    take_average(model)
    try:
        yield
    finally:
        for variable, value in zip(model.trainable_variables, own, strict=True):
            variable.assign(value)


class EvaluateAverage(keras.callbacks.Callback):
    """Has validation see the average, and takes back what Keras writes when `fit` ends."""

    def __init__(self) -> None:
        """Starts outside of everything."""
        super().__init__()
        self._inside = contextlib.ExitStack()

    def on_test_begin(self, logs: dict | None = None) -> None:
        """Puts the average into the model."""
        self._inside.enter_context(averaged(self.model))

    def on_test_end(self, logs: dict | None = None) -> None:
        """Puts the model's own weights back."""
        self._inside.close()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Keeps the weights, which Keras may be about to overwrite."""
        self._own = [variable.numpy() for variable in self.model.trainable_variables]

    def on_train_end(self, logs: dict | None = None) -> None:
        """Puts them back."""
        for variable, value in zip(self.model.trainable_variables, self._own, strict=True):
            variable.assign(value)


def plan_averaging(model: keras.Model) -> list[EvaluateAverage]:
    """The callback, if the model's optimizer keeps an average."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return [EvaluateAverage()] if optimizer.use_ema else []
