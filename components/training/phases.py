"""Fine-tuning in two phases: the head alone, then all of the network.

Which phase it is follows from the epoch, and one optimizer serves both, so that training that was
interrupted goes on from its checkpoint in either. It begins the second phase as a new one would:
Adam, for one, would else take the weights that learn only now for some that have hardly any
gradients, and move them up to six times as fast as its learning rate says.
"""

from typing import Any

import keras
import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.compiling import Scaled
from image_pipeline.components.models.heads import find_heads
from image_pipeline.components.models.options import TrainingOptions


class Phases:
    """The phases of training; without `training.fine_tuning` there is one, and nothing is done."""

    def __init__(self, model: keras.Model, training: TrainingOptions, steps_per_epoch: int = 1):
        """Takes a compiled model whose weights all learn, and nothing of which is restored yet.

        Raises:
          UserError: if nothing tells its head from the rest.
        """
        self._model, self._rate = model, training.learning_rate
        self._options = training.fine_tuning
        if self._options is None:
            return
        self._first_step = self._options.head_epochs * steps_per_epoch
        self._body = _list_body(model, training)
        # Of every weight, so that the optimizer's state is the same in both phases.
        model.optimizer.build(model.trainable_variables)
        self._optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        # Nearly all of it is zeros, which need not be kept.
        values = (np.asarray(variable) for variable in self._optimizer.variables)
        self._fresh = [value if value.any() else np.zeros([], value.dtype) for value in values]

    @property
    def boundary(self) -> int | None:
        """The first epoch of the second phase."""
        return None if self._options is None else self._options.head_epochs

    def enter(self, epoch: int, step: int = 0) -> None:
        """Freezes, and sets the optimizer, as the phase of this step of an epoch wants it."""
        if self._options is None:
            return
        is_first = epoch < self._options.head_epochs
        for layer, has_learned in self._body:  # A layer before those in it, which it would change.
            is_norm = isinstance(layer, keras.layers.BatchNormalization)
            learns = not is_norm or self._options.batch_norm == "trained"
            layer.trainable = has_learned and learns and not is_first
        if (epoch, step) == (self._options.head_epochs, 0):
            for variable, value in zip(self._optimizer.variables, self._fresh, strict=True):
                variable.assign(np.broadcast_to(value, variable.shape))
        if not is_first:
            rate = self._options.learning_rate
            _set_rate(self._optimizer, self._rate, rate, self._first_step)
        # Keras compiles into the function of a step which weights learn. Without the earlier one:
        # that of several devices is made only where there is none.
        self._model.train_function = None
        self._model.make_train_function(force=True)


def _set_rate(optimizer: Any, first: float, rate: float, first_step: int) -> None:
    """Sets a rate; a schedule that begins with the first one is scaled to it."""
    # Keras's public attribute is the rate at the present step.
    schedule = optimizer._learning_rate
    if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        optimizer.learning_rate = rate
    elif not isinstance(schedule, Scaled):
        optimizer.learning_rate = Scaled(schedule, rate / first, first_step)


def _list_body(
    model: keras.Model, training: TrainingOptions
) -> list[tuple[keras.layers.Layer, bool]]:
    """The layers before the head, also those in others; and whether each learns.

    What a user's own model froze stays frozen.
    """
    heads = find_heads(model)
    if not heads:
        raise UserError(
            f"training.fine_tuning freezes all but the head, but training.model="
            f"{training.model} is a class of its own, which does not tell its head; build it "
            "from keras.Input to its outputs, or leave fine_tuning out."
        )
    of_heads = {id(layer) for head in heads for layer in head._flatten_layers()}
    body = [
        (layer, bool(layer.trainable))
        for layer in model._flatten_layers(include_self=False)
        if layer.weights and id(layer) not in of_heads and not isinstance(layer, keras.Model)
    ]
    if not any(learns for _, learns in body):
        raise UserError(
            f"training.fine_tuning freezes all but the head, but training.model="
            f"{training.model} has no other layers that learn; leave fine_tuning out."
        )
    return body
