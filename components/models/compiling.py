"""Compiles a model by the recipe's options."""

import inspect
from collections.abc import Sequence
from typing import Any

import keras

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.models.schedule import make_learning_rate
from image_pipeline.components.models.smoothing import smooth_labels


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
      UserError: if labels are to be smoothed, but the loss is no function.
    """
    if share := options.label_smoothing:
        if not inspect.isfunction(loss):
            raise UserError(
                f"training.label_smoothing={share} spreads the labels of one loss, a function of "
                f"labels and probabilities, but the loss is {loss!r}; set it to 0."
            )
        loss = smooth_labels(loss, share)
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
        learning_rate=make_learning_rate(options, options.learning_rate),
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
