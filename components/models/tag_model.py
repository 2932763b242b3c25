"""The default model for tags: that for classes, with a sigmoid for each tag."""

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
      num_classes: number of tags.
      options: the recipe.

    Returns:
      A model from float32 [batch, height, width, channels] to float32 [batch, num_classes], the
      probability of each tag. Labels are float32 of the same shape.
    """
    inputs = keras.Input(input_shape, name="image")
    return add_head(inputs, build_features(inputs), num_classes, options)


def add_head(
    inputs: keras.KerasTensor,
    features: keras.KerasTensor,
    num_classes: int,
    options: TrainingOptions,
) -> keras.Model:
    """A compiled model for tags of what a network sees in images, [batch, features]."""
    outputs = keras.layers.Dense(
        num_classes, activation="sigmoid", name="probabilities", dtype="float32"
    )(features)
    model = keras.Model(inputs, outputs)
    metrics = [
        keras.metrics.AUC(
            curve="PR", multi_label=True, num_labels=num_classes, name="mean_average_precision"
        ),
        keras.metrics.F1Score(average="micro", threshold=0.5, name="f1"),
    ]
    compile_model(model, binary_cross_entropy, metrics, options)
    return model


def binary_cross_entropy(
    tags: keras.KerasTensor, probabilities: keras.KerasTensor
) -> keras.KerasTensor:
    """Cross entropy of each tag, so that each can have a weight of its own.

    Args:
      tags: float32 [batch, tags], 0 or 1, or shares where images are mixed.
      probabilities: float32 [batch, tags].

    Returns:
      float32 [batch, tags]; Keras takes the mean.
    """
    return keras.ops.binary_crossentropy(tags, probabilities)
