"""How a built-in model is compiled: one place for its optimizer, whatever it learns."""

from collections.abc import Sequence
from typing import Any

import keras

from image_pipeline.components.models.options import TrainingOptions


def compile_model(
    model: keras.Model, loss: Any, metrics: Sequence[Any] | None, options: TrainingOptions
) -> None:
    """Compiles a model for its loss and metrics, with the optimizer that the options name.

    Args:
      model: built; changed.
      loss: as Keras takes it.
      metrics: as Keras takes them, or none.
      options: the learning rate.
    """
    model.compile(
        optimizer=keras.optimizers.Adam(options.learning_rate), loss=loss, metrics=metrics
    )
