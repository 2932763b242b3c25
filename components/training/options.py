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
