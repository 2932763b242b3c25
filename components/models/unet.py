"""The models for masks, U-Nets for images of any size (arXiv 1505.04597); their loss and metrics.

Pixels of `record.IGNORED` count neither in the loss nor in a metric.
"""

from collections.abc import Callable

import keras

from image_pipeline.components.dataset import record
from image_pipeline.components.models.backbones import see_stages
from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.model import (
    FIRST_FILTERS,
    MOST_FILTERS,
    convolve_twice,
    count_halvings,
    cross_entropy_of_ids,
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


@keras.saving.register_keras_serializable("image_pipeline", "cross_entropy_of_masks")
def cross_entropy(masks: keras.KerasTensor, probabilities: keras.KerasTensor) -> keras.KerasTensor:
    """Cross entropy of each pixel's class.

    Args:
      masks: int [batch, height, width], class ids.
      probabilities: float32 [batch, height, width, classes].

    Returns:
      float32 [batch, height, width]; Keras leaves ignored pixels out of the mean.
    """
    return cross_entropy_of_ids(masks, probabilities, record.IGNORED)


@keras.saving.register_keras_serializable("image_pipeline")
class MeanIoU(keras.metrics.MeanIoU):
    """The mean, over the classes that occur, of intersection over union.

    A class occurs if a mask has it or it is predicted. Counts of pixels are whole numbers of 64
    bits: a large data set has more pixels than the 32 bits of Keras's own can count.
    """

    def __init__(self, num_classes: int, name: str = "mean_io_u", dtype: str | None = None):
        """Takes the number of classes, and what Keras gives to every metric."""
        super().__init__(
            num_classes,
            name=name,
            dtype=dtype or "int64",
            ignore_class=record.IGNORED,
            sparse_y_pred=False,
        )

    def get_config(self) -> dict:
        """What makes another one like it."""
        return {"num_classes": self.num_classes, "name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable("image_pipeline")
class PixelAccuracy(keras.metrics.MeanMetricWrapper):
    """The share of pixels whose likeliest class is the mask's."""

    def __init__(self, name: str = "pixel_accuracy", dtype: str | None = None):
        """Takes what Keras gives to every metric."""
        super().__init__(
            keras.metrics.sparse_categorical_accuracy, name=name, dtype=dtype or "float64"
        )

    def update_state(
        self,
        y_true: keras.KerasTensor,
        y_pred: keras.KerasTensor,
        sample_weight: keras.KerasTensor | None = None,
    ) -> None:
        """Counts a batch; masks and predictions are those of `cross_entropy`."""
        weight = keras.ops.cast(keras.ops.not_equal(y_true, record.IGNORED), self.dtype)
        if sample_weight is not None:
            weight *= keras.ops.cast(sample_weight, self.dtype)
        super().update_state(y_true, y_pred, weight)

    def get_config(self) -> dict:
        """What makes another one like it."""
        return {"name": self.name, "dtype": self.dtype}
