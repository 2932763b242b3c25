"""Options of training."""

import pydantic

from components.options import Options


class TrainingOptions(Options):
    """How the model is trained."""

    model: str = "components.training.model.build_model"
    """Dotted path of `build_model(input_shape, num_classes, options) -> compiled keras.Model`."""
    epochs: pydantic.PositiveInt = 10
    """Passes over the train split."""
    learning_rate: pydantic.PositiveFloat = 1e-3
    """Adam's learning rate (read by the default model)."""
    seed: int = 0
    """Seeds weights, order and augmentation."""


class EvaluationOptions(Options):
    """When a model is good enough to be pushed."""

    min_accuracy: float = pydantic.Field(default=0.5, ge=0, le=1)
    """A model with a lower accuracy on the eval split is not pushed."""
    confidence_intervals: bool = False
    """Whether to estimate how far chance moves the metrics; takes a multiple of the time."""
