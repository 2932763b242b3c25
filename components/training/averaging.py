"""Evaluation with averaged weights, where the optimizer keeps an average of them (`use_ema`).

Keras writes the average into the model when `fit` ends, as if that were the end of training; a
training that is resumed, or has two phases, calls `fit` twice. And it takes the averages for those
of the weights that learn just then, which in the phases of fine-tuning are not all. Here the model
has its own weights whenever a step is made or a checkpoint is stored.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras


def take_average(model: keras.Model) -> None:
    """Writes the average into the model, if there is one: before the first step there is none."""
    optimizer = _find_keeper(model)
    if not keras.ops.convert_to_numpy(optimizer.iterations):
        return  # Mixed precision may have left out all steps; Keras's averages begin at 0.
    # The method of its class: `plan_averaging` hides it from Keras.
    type(optimizer).finalize_variable_values(optimizer, optimizer._trainable_variables)


@contextlib.contextmanager
def averaged(model: keras.Model) -> Iterator[None]:
    """Inside, the model has the average of its weights, if there is one; then its own again."""
    variables = _find_keeper(model)._trainable_variables
    own = [variable.numpy() for variable in variables]
    take_average(model)
    try:
        yield
    finally:
        for variable, value in zip(variables, own, strict=True):
            variable.assign(value)


class EvaluateAverage(keras.callbacks.Callback):
    """Has validation see the average."""

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


def plan_averaging(model: keras.Model) -> list[EvaluateAverage]:
    """The callback, if the model's optimizer keeps an average; `fit` then no longer writes it."""
    if not _find_keeper(model).use_ema:
        return []
    model.optimizer.finalize_variable_values = lambda var_list: None
    return [EvaluateAverage()]


def _find_keeper(model: keras.Model) -> Any:
    """The optimizer that has the averages: mixed precision has one within another."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)
