"""Fine-tuning in two phases: the head alone, then all of the network.

Which phase it is follows from the epoch, and one optimizer serves both, so that training that was
interrupted goes on from its checkpoint in either.
"""

from collections.abc import Iterator
from typing import Any

import keras

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.heads import find_heads
from image_pipeline.components.models.options import TrainingOptions


@keras.saving.register_keras_serializable("image_pipeline")
class Scaled(keras.optimizers.schedules.LearningRateSchedule):
    """Another schedule, times a factor."""

    def __init__(self, schedule: Any, factor: float):
        """Takes both."""
        super().__init__()
        self.schedule, self.factor = schedule, factor

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        return self.schedule(step) * self.factor

    def get_config(self) -> dict[str, Any]:
        """What makes another one like it."""
        return {"schedule": self.schedule, "factor": self.factor}


class Phases:
    """The phases of training; without `training.fine_tuning` there is one, and nothing is done."""

    def __init__(self, model: keras.Model, training: TrainingOptions):
        """Takes a compiled model whose weights all learn.

        Raises:
          UserError: if nothing tells its head from the rest.
        """
        self._model, self._rate = model, training.learning_rate
        self._options = training.fine_tuning
        if self._options is None:
            return
        heads = find_heads(model)
        if not heads:
            raise UserError(
                f"training.fine_tuning freezes all but the head, but training.model="
                f"{training.model} is a class of its own, which does not tell its head; build it "
                "from keras.Input to its outputs, or leave fine_tuning out."
            )
        # Of every weight, so that the optimizer's state is the same in both phases.
        model.optimizer.build(model.trainable_variables)
        # What a user's own model froze stays frozen.
        self._body = [
            layer
            for layer in _list_layers(model)
            if layer.trainable and layer.weights and all(layer is not head for head in heads)
        ]
        if not self._body:
            raise UserError(
                f"training.fine_tuning freezes all but the head, but training.model="
                f"{training.model} has no other layers; leave fine_tuning out."
            )

    @property
    def boundary(self) -> int | None:
        """The first epoch of the second phase."""
        return None if self._options is None else self._options.head_epochs

    def enter(self, epoch: int) -> None:
        """Freezes and sets the learning rate as the epoch's phase wants it."""
        if self._options is None:
            return
        is_first = epoch < self._options.head_epochs
        for layer in self._body:
            is_norm = isinstance(layer, keras.layers.BatchNormalization)
            layer.trainable = not is_first and (
                not is_norm or self._options.batch_norm == "trained"
            )
        if not is_first:
            _set_rate(self._model.optimizer, self._rate, self._options.learning_rate)
        # Keras compiles into the function of a step which weights learn. Without the earlier one:
        # that of several devices is made only where there is none.
        self._model.train_function = None
        self._model.make_train_function(force=True)


def _set_rate(optimizer: Any, first: float, rate: float) -> None:
    """Sets a rate; a schedule that begins with the first one is scaled to it."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    # Keras's public attribute is the rate at the present step.
    schedule = optimizer._learning_rate
    if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        optimizer.learning_rate = rate
    elif not isinstance(schedule, Scaled):
        optimizer.learning_rate = Scaled(schedule, rate / first)


def _list_layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """A model's layers, and those of models in it instead of these."""
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _list_layers(layer)
        else:
            yield layer
