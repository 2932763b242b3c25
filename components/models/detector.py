"""The models for boxes: small networks that find objects of any size on one grid."""

from typing import Any

import keras

from image_pipeline.components.models.box_loss import (
    assign_boxes,
    focal_loss,
    giou_loss,
    make_points,
)
from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.model import activate, convolve_twice, count_halvings
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.models.unet import See, join_finer
from image_pipeline.components.models.unet import see_with_lite as see_halves

STRIDE_PX = 4  # between the points of the grid
_FILTERS = (16, 32, 64, 96, 128, 128)  # of maps of 1/2, 1/4 … of the image
_SMALLEST_MAP_PX = 4
_LEAST_FILTERS = 32  # of what answers see
# Before training, a point finds each class with this probability, as in RetinaNet: the loss of all
# points that have nothing to find would drown the others'.
_FIRST_SCORE_LOGIT = -4.6  # 0.01
_FIRST_SIZE = 4.0  # of a box, in steps of the grid
_GREATEST_LOG = 5.0  # so that no box overflows


def see_from_scratch(
    images: keras.KerasTensor, options: TrainingOptions
) -> list[keras.KerasTensor]:
    """Maps of a quarter of the image's sides and, as small as it may become, of halves of it."""
    halvings = count_halvings(min(images.shape[1:3]), _SMALLEST_MAP_PX, len(_FILTERS), least=2)
    outputs = images
    maps = []
    for level, filters in enumerate(_FILTERS[:halvings]):
        halve = keras.layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)
        outputs = convolve_twice(activate(halve(outputs)), filters)
        maps += [outputs] if level else []
    return maps


def see_with_lite(images: keras.KerasTensor, options: TrainingOptions) -> list[keras.KerasTensor]:
    """Maps of EfficientNet-Lite0, of 1/4 to 1/32 of the image's sides."""
    return see_halves(images, options)[1:]


def build_model(
    input_shape: tuple[int, int, int],
    num_classes: int,
    options: TrainingOptions,
    see: See = see_from_scratch,
) -> keras.Model:
    """Builds and compiles the network.

    An image is halved as often as it can be, and what is seen in the small maps is laid beside
    the larger ones on the way back to a quarter of the image's size, as in a U-Net.

    Args:
      input_shape: height, width and channels of the normalised images.
      num_classes: number of classes.
      options: the recipe.
      see: the way down.

    Returns:
      A model from float32 [batch, height, width, channels] to a dict of `boxes`, float32 [batch,
      points, 4] (top, left, bottom and right as shares of the image's sides), and `scores`, float32
      [batch, points, num_classes], probabilities. Labels are those that `input_fn` gives.
    """
    inputs = keras.Input(input_shape, name="image")
    *maps, features = see(inputs, options)
    for finer in reversed(maps):
        filters = max(finer.shape[-1], _LEAST_FILTERS)
        features = convolve_twice(join_finer(features, finer), filters)
    bias = keras.initializers.Constant(_FIRST_SCORE_LOGIT)
    scores = keras.layers.Conv2D(num_classes, 3, padding="same", bias_initializer=bias)(features)
    places = keras.layers.Conv2D(4, 3, padding="same", name="places")(features)
    # float32 whatever the policy: halves are too coarse for a place, and for the loss.
    outputs = {
        "boxes": PlaceBoxes(input_shape[:2], STRIDE_PX, name="boxes", dtype="float32")(places),
        "scores": keras.layers.Activation("sigmoid", name="scores", dtype="float32")(
            keras.layers.Reshape([-1, num_classes])(scores)
        ),
    }
    model = Detector(inputs, outputs)
    compile_model(model, {"boxes": giou_loss, "scores": focal_loss}, None, options)
    return model


@keras.saving.register_keras_serializable("image_pipeline")
class Detector(keras.Model):
    """A model whose losses compare each point of its grid with what that point is to find.

    Its outputs are as `build_model` says, its input one batch of images.
    """

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> keras.KerasTensor:
        """The losses that it was compiled with, of labels as `input_fn` gives them."""
        height, width = self.input_shape[1:3]
        points = make_points(height, width, STRIDE_PX)
        step = STRIDE_PX / height, STRIDE_PX / width
        targets = assign_boxes(y, points, step, y_pred["scores"].shape[-1])
        return super().compute_loss(x, targets, y_pred, sample_weight, training)


@keras.saving.register_keras_serializable("image_pipeline")
class PlaceBoxes(keras.layers.Layer):
    """Boxes around the points of a grid, from each centre's distance and each size's logarithm."""

    def __init__(self, size_px: tuple[int, int], stride_px: int, **options: Any):
        super().__init__(**options)
        self.size_px, self.stride_px = tuple(size_px), stride_px

    def call(self, places: keras.KerasTensor) -> keras.KerasTensor:
        """Gives [batch, points, 4] for [batch, rows, columns, 4]."""
        ops = keras.ops
        height, width = self.size_px
        step = ops.convert_to_tensor([self.stride_px / height, self.stride_px / width], self.dtype)
        places = ops.reshape(places, [ops.shape(places)[0], -1, 4])
        centres = places[..., :2] * step + make_points(height, width, self.stride_px)
        sizes = ops.exp(ops.minimum(places[..., 2:], _GREATEST_LOG)) * _FIRST_SIZE * step
        return ops.concatenate([centres - sizes / 2, centres + sizes / 2], axis=-1)

    def get_config(self) -> dict:
        """What makes another one like it."""
        return {**super().get_config(), "size_px": self.size_px, "stride_px": self.stride_px}
