"""Compiles a model by the recipe's options: loss, optimizer, and the learning rate of each step."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras.optimizers.schedules import CosineDecay, LearningRateSchedule, PolynomialDecay

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions

Loss = Callable[[keras.KerasTensor, keras.KerasTensor], keras.KerasTensor]


def compile_model(
    model: keras.Model, loss: Any, metrics: Sequence[Any] | None, options: TrainingOptions
) -> None:
    """Compiles a model, as all built-in ones are.

    Args:
      model: built; changed.
      loss: as Keras takes it; a function if labels are to be smoothed.
      metrics: as Keras takes them, or none.
      options: the recipe.

    Raises:
      UserError: if labels are to be smoothed, but the loss is not a function.
    """
    if share := options.label_smoothing:
        if not inspect.isfunction(loss):
            raise UserError(
                f"training.label_smoothing={share} spreads the labels of one loss, a function of "
                f"labels and probabilities, but the loss is {loss!r}; set it to 0."
            )
        loss = SmoothedLoss(loss, share)
    model.compile(optimizer=make_optimizer(model, options), loss=loss, metrics=metrics)


def make_optimizer(model: keras.Model, options: TrainingOptions) -> keras.optimizers.Optimizer:
    """The optimizer that the options describe.

    Args:
      model: whose weights it moves; it must be built if they are to decay.
      options: the recipe.

    Raises:
      UserError: if weights are to decay, and the model has none yet.
    """
    given = {
        "momentum": options.momentum,
        "nesterov": options.nesterov or None,
        "weight_decay": options.weight_decay,
        "clipnorm": options.clipnorm,
        "global_clipnorm": options.global_clipnorm,
        "gradient_accumulation_steps": options.gradient_accumulation_steps,
    }
    kind: Any = next(
        each
        for name, each in vars(keras.optimizers).items()
        if inspect.isclass(each) and name.lower() == options.optimizer
    )
    optimizer = kind(
        learning_rate=make_learning_rate(options),
        use_ema=options.use_ema,
        ema_momentum=options.ema_momentum,
        **{name: value for name, value in given.items() if value is not None},
    )
    if optimizer.weight_decay:
        if not model.built:
            raise UserError(
                f"training.weight_decay={optimizer.weight_decay} needs to know the model's "
                "weights before it is compiled; begin the model with a keras.Input, or build it."
            )
        optimizer.exclude_from_weight_decay(
            [weight for weight in model.trainable_variables if len(weight.shape) < 2]
        )
    return optimizer


@keras.saving.register_keras_serializable("image_pipeline")
class SmoothedLoss:
    """A cross entropy whose labels are spread (arXiv 1512.00567): a share of each evenly.

    A cross entropy is linear in its labels, so it is that of the labels as they are, and that of
    even ones, in these shares. It takes labels of every kind that the loss takes.
    """

    def __init__(self, loss: Loss, share: float):
        """Takes what is spread, and how much.

        Args:
          loss: of ids or shares of classes, [batch], spread over all of them; or of tags, [batch,
            tags], where a label is spread over yes and no.
          share: from 0 to less than 1.
        """
        self.loss, self.share = loss, share
        self.__name__ = loss.__name__  # By it one tells whether a loss reads probabilities.

    def __call__(
        self, labels: keras.KerasTensor, probabilities: keras.KerasTensor
    ) -> keras.KerasTensor:
        """The loss, of the shape that it has without smoothing."""
        own = self.loss(labels, probabilities)
        if len(own.shape) == 1 == probabilities.shape[-1]:
            return own  # There is one class, whose share is all.
        even = 1 / probabilities.shape[-1] if len(own.shape) == 1 else 1 / 2
        spread = self.loss(keras.ops.full_like(probabilities, even), probabilities)
        mixed = (1 - self.share) * own + self.share * spread
        # Where Keras notes which records have a class; the others stay out of the mean.
        if (mask := getattr(own, "_keras_mask", None)) is not None:
            mixed._keras_mask = mask
        return mixed

    def get_config(self) -> dict[str, Any]:
        """What makes another one like it."""
        return {"loss": keras.saving.serialize_keras_object(self.loss), "share": self.share}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "SmoothedLoss":
        """Makes one of what `get_config` gives."""
        return cls(keras.saving.deserialize_keras_object(config["loss"]), config["share"])


@keras.saving.register_keras_serializable("image_pipeline")
class Schedule(LearningRateSchedule):
    """A warm-up from 0, then a constant rate or half a cosine, by Keras's own schedules.

    A model is compiled before anyone knows how long an epoch is: until `set_length` tells, the rate
    is constant. It is a function of the step, so that training resumes where it was.
    """

    def __init__(
        self,
        learning_rate: float,
        schedule: str,
        warmup_epochs: float,
        end_factor: float,
        length: Sequence[int] | None = None,
    ):
        """Takes the highest rate, the options of these names, and the length for `set_length`."""
        super().__init__()
        self._given = (learning_rate, schedule, warmup_epochs, end_factor)
        self._length: list[int] | None = None
        self._plan: LearningRateSchedule | None = None
        if length is not None:
            self.set_length(*length)

    def set_length(self, epochs: int, steps_per_epoch: int) -> None:
        """Tells how long training is, in epochs and batches; the warm-up is a step shorter."""
        self._length = [epochs, steps_per_epoch]
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
        names = ("learning_rate", "schedule", "warmup_epochs", "end_factor", "length")
        return dict(zip(names, (*self._given, self._length), strict=True))


@keras.saving.register_keras_serializable("image_pipeline")
class Scaled(LearningRateSchedule):
    """Another schedule, times a factor, for an optimizer that counts its steps from a later one."""

    def __init__(self, schedule: LearningRateSchedule, factor: float, first_step: int):
        super().__init__()
        self.schedule, self.factor, self.first_step = schedule, factor, first_step

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        return self.schedule(step + self.first_step) * self.factor

    def get_config(self) -> dict[str, Any]:
        """What makes another one like it."""
        inner = keras.saving.serialize_keras_object(self.schedule)
        return {"schedule": inner, "factor": self.factor, "first_step": self.first_step}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Scaled":
        """Makes one of what `get_config` gives."""
        inner = keras.saving.deserialize_keras_object(config["schedule"])
        return cls(**config | {"schedule": inner})


def make_learning_rate(options: TrainingOptions) -> float | Schedule:
    """What an optimizer is given: a number, where the rate never changes."""
    if options.schedule == "constant" and not options.warmup_epochs:
        return options.learning_rate
    return Schedule(
        options.learning_rate, options.schedule, options.warmup_epochs, options.end_factor
    )


def find_inner(optimizer: Any) -> Any:
    """The optimizer that moves weights: mixed precision has one within another."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def set_length(model: keras.Model, epochs: int, steps_per_epoch: int) -> None:
    """Tells a compiled model's schedule, if it has one of these, how long training is."""
    # Keras's public attribute is the rate at the present step.
    schedule = getattr(find_inner(model.optimizer), "_learning_rate", None)
    if isinstance(schedule, Schedule):
        schedule.set_length(epochs, steps_per_epoch)
