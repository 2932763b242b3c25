"""The default model for masks: a small U-Net for images of any size (arXiv 1505.04597)."""

import keras

from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.mask_metrics import MeanIoU, PixelAccuracy, cross_entropy
from image_pipeline.components.models.model import (
    FIRST_FILTERS,
    MOST_FILTERS,
    convolve_twice,
    count_halvings,
)
from image_pipeline.components.models.options import TrainingOptions

# The image is halved until its shorter side would be under this many pixels.
SMALLEST_MAP_PX = 8
MOST_HALVINGS = 4


def build_model(
    input_shape: tuple[int, int, int], num_classes: int, options: TrainingOptions
) -> keras.Model:
    """Builds and compiles the network.

    Args:
      input_shape: height, width and channels of the normalised images.
      num_classes: length of each pixel's probability vector.
      options: the recipe.

    Returns:
      A model from float32 [batch, height, width, channels] to float32 [batch, height, width,
      num_classes], probabilities that sum to 1. Labels are class ids, int [batch, height, width].
    """
    inputs = keras.Input(input_shape, name="image")
    halvings = count_halvings(min(input_shape[:2]), SMALLEST_MAP_PX, MOST_HALVINGS)
    sizes = [min(FIRST_FILTERS << level, MOST_FILTERS) for level in range(halvings + 1)]
    outputs = convolve_twice(inputs, sizes[0])
    passed = []  # maps of each size, which the way up is given
    for filters in sizes[1:]:
        passed.append(outputs)
        outputs = convolve_twice(keras.layers.MaxPooling2D(padding="same")(outputs), filters)
    for filters, finer in zip(sizes[-2::-1], reversed(passed), strict=True):
        outputs = convolve_twice(join_finer(outputs, finer), filters)
    outputs = keras.layers.Conv2D(
        num_classes, 1, activation="softmax", name="probabilities", dtype="float32"
    )(outputs)
    model = keras.Model(inputs, outputs)
    compile_model(model, cross_entropy, [MeanIoU(num_classes), PixelAccuracy()], options)
    return model


def join_finer(coarse: keras.KerasTensor, finer: keras.KerasTensor) -> keras.KerasTensor:
    """Doubles the coarse map and lays the finer one beside it, along the channels.

    Half of an odd size is rounded up; twice that has one row or column too many.
    """
    doubled = keras.layers.UpSampling2D()(coarse)
    spare = [(0, doubled.shape[axis] - finer.shape[axis]) for axis in (1, 2)]
    if any(count for _, count in spare):
        doubled = keras.layers.Cropping2D(tuple(spare))(doubled)
    return keras.layers.Concatenate()([doubled, finer])
