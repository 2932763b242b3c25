"""The default model for numbers: that for classes, with one linear output."""

import keras

from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.model import build_features
from image_pipeline.components.models.options import TrainingOptions


def build_model(
    input_shape: tuple[int, int, int], num_classes: int, options: TrainingOptions
) -> keras.Model:
    """Builds and compiles the network.

    Args:
      input_shape: height, width and channels of the normalised images.
      num_classes: 1.
      options: the recipe.

    Returns:
      A model from float32 [batch, height, width, channels] to float32 [batch, 1]. Labels are
      float32 [batch].
    """
    inputs = keras.Input(input_shape, name="image")
    return add_head(inputs, build_features(inputs), num_classes, options)


def add_head(
    inputs: keras.KerasTensor,
    features: keras.KerasTensor,
    num_classes: int,
    options: TrainingOptions,
) -> keras.Model:
    """A compiled model for numbers of what a network sees in images, [batch, features]."""
    outputs = keras.layers.Dense(num_classes, name="value", dtype="float32")(features)
    model = keras.Model(inputs, outputs)
    metrics = [
        keras.metrics.MeanSquaredError(name="mean_squared_error"),
        keras.metrics.MeanAbsoluteError(name="mean_absolute_error"),
    ]
    compile_model(model, "mean_squared_error", metrics, options)
    return model
