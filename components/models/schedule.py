"""The learning rate as a function of the step, so that training resumes where it was."""

from typing import Any

import keras
from keras.optimizers.schedules import CosineDecay, LearningRateSchedule, PolynomialDecay

from image_pipeline.components.models.recipe import RecipeOptions


@keras.saving.register_keras_serializable("image_pipeline")
class Schedule(LearningRateSchedule):
    """A warm-up from 0, then a constant rate or half a cosine, by Keras's own schedules.

    A model is compiled before anyone knows how long an epoch is: until `set_length` tells, the rate
    is constant.
    """

    def __init__(
        self, learning_rate: float, schedule: str, warmup_epochs: float, end_factor: float
    ):
        """Takes the highest rate, and the options of these names."""
        super().__init__()
        self._given = (learning_rate, schedule, warmup_epochs, end_factor)
        self._plan: LearningRateSchedule | None = None

    def set_length(self, epochs: int, steps_per_epoch: int) -> None:
        """Tells how long training is, in epochs and batches; the warm-up is a step shorter."""
        rate, schedule, warmup_epochs, end_factor = self._given
        total = epochs * steps_per_epoch
        warmup = min(round(warmup_epochs * steps_per_epoch), total - 1)
        if schedule == "cosine":
            self._plan = CosineDecay(
                initial_learning_rate=0.0 if warmup else rate,
                decay_steps=total - warmup,
                alpha=end_factor,
                warmup_target=rate if warmup else None,
                warmup_steps=warmup,
            )
        elif warmup:
            self._plan = PolynomialDecay(0.0, warmup, end_learning_rate=rate, power=1.0)

    def __call__(self, step: Any) -> Any:
        """The rate at a step, counted from 0 over all epochs: float32 []."""
        return (
            keras.ops.convert_to_tensor(self._given[0]) if self._plan is None else self._plan(step)
        )

    def get_config(self) -> dict[str, Any]:
        """What makes another one like it."""
        names = ("learning_rate", "schedule", "warmup_epochs", "end_factor")
        return dict(zip(names, self._given, strict=True))


def make_learning_rate(options: RecipeOptions, learning_rate: float) -> float | Schedule:
    """What an optimizer is given: a number, where the rate never changes."""
    given = (options.schedule, options.warmup_epochs, options.end_factor)
    if given[0] == "constant" and not given[1]:
        return learning_rate
    return Schedule(learning_rate, *given)


def set_length(model: keras.Model, epochs: int, steps_per_epoch: int) -> None:
    """Tells a compiled model's schedule, if it has one of these, how long training is."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    # Keras's public attribute is the rate at the present step.
    schedule = getattr(optimizer, "_learning_rate", None)
    if isinstance(schedule, Schedule):
        schedule.set_length(epochs, steps_per_epoch)
