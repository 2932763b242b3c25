"""The models for masks: U-Nets for images of any size (arXiv 1505.04597)."""

from collections.abc import Callable

import keras

from image_pipeline.components.models.backbones import see_stages
from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.mask_metrics import MeanIoU, PixelAccuracy, cross_entropy
from image_pipeline.components.models.model import (
    FIRST_FILTERS,
    MOST_FILTERS,
    convolve_twice,
    count_halvings,
)
from image_pipeline.components.models.names import IMAGENET
from image_pipeline.components.models.options import TrainingOptions

# The image is halved until its shorter side would be under this many pixels.
SMALLEST_MAP_PX = 8
MOST_HALVINGS = 4


See = Callable[[keras.KerasTensor, TrainingOptions], list[keras.KerasTensor]]
"""What sees maps in images, [batch, height, width, any]: each of half the sides of the one before,
rounded up."""


def see_from_scratch(
    images: keras.KerasTensor, options: TrainingOptions
) -> list[keras.KerasTensor]:
    """Maps of the image's size and, as small as it may become, of halves of it."""
    halvings = count_halvings(min(images.shape[1:3]), SMALLEST_MAP_PX, MOST_HALVINGS)
    maps = [convolve_twice(images, FIRST_FILTERS)]
    for level in range(1, halvings + 1):
        smaller = keras.layers.MaxPooling2D(padding="same")(maps[-1])
        maps.append(convolve_twice(smaller, min(FIRST_FILTERS << level, MOST_FILTERS)))
    return maps


def see_with_lite(images: keras.KerasTensor, options: TrainingOptions) -> list[keras.KerasTensor]:
    """Maps of EfficientNet-Lite0, of 1/2 to 1/32 of the image's sides."""
    return see_stages(images, options.weights == IMAGENET)


def build_model(
    input_shape: tuple[int, int, int],
    num_classes: int,
    options: TrainingOptions,
    see: See = see_from_scratch,
) -> keras.Model:
    """Builds and compiles the network.

    Args:
      input_shape: height, width and channels of the normalised images.
      num_classes: length of each pixel's probability vector.
      options: the recipe.
      see: the way down; the way up joins its maps, from the smallest on.

    Returns:
      A model from float32 [batch, height, width, channels] to float32 [batch, height, width,
      num_classes], probabilities that sum to 1. Labels are class ids, int [batch, height, width].
    """
    inputs = keras.Input(input_shape, name="image")
    *maps, outputs = see(inputs, options)
    for finer in reversed(maps):
        outputs = convolve_twice(join_finer(outputs, finer), finer.shape[-1])
    if outputs.shape[1:3] != inputs.shape[1:3]:
        outputs = keras.layers.Resizing(*input_shape[:2])(outputs)
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
