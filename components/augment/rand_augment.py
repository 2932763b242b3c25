"""The step rand_augment."""

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from image_pipeline.components.augment import draws, levels, tone
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.boxes import replace_boxes
from image_pipeline.components.augment.options import RandAugment
from image_pipeline.components.augment.per_image import map_images
from image_pipeline.components.augment.warp import (
    affine_coordinates,
    move_boxes,
    warp,
    warp_nearest,
)

# The order is torchvision's.
MOVES = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
CHANGES = (
    "brightness",
    "color",
    "contrast",
    "sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
)
OPERATIONS = ("identity", *MOVES, *CHANGES)
# How far the operations go at magnitude 10, from torchvision's `RandAugment`.
_MOST_SHEAR, _MOST_SHIFT, _MOST_DEGREES, _MOST_FACTOR, _MOST_BITS = 0.3, 150 / 331, 30, 0.9, 4


def rand_augment(batch: Batch, keys: tf.Tensor, options: RandAugment) -> Batch:
    """Applies several random operations, all at one magnitude.

    Operations and their ranges are those of torchvision's `RandAugment`; its magnitudes 0 to 30
    are 0 to 10 here. It is bilinear (torchvision's default is the nearest pixel).

    Args:
      batch: see `Batch`; images, masks and boxes change.
      keys: uint64 [batch].
      options: how many operations an image gets, their magnitude, what comes in from outside.
    """
    for number in range(options.steps):
        draw = draws.uniform(draws.fold(keys, number), 2)
        batch = _take_step(batch, *choose_operations(draw), options)
    return batch


def choose_operations(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Turns random numbers into operations and directions.

    Args:
      numbers: float32 [batch, 2], uniform in [0, 1).

    Returns:
      int32 [batch], places in `OPERATIONS`; int32 [batch], 1 where the magnitude is negative and
      otherwise 0.
    """
    operations = tf.cast(numbers[:, 0] * float(len(OPERATIONS)), tf.int32)
    return operations, tf.cast(numbers[:, 1] < 0.5, tf.int32)


def make_matrices(height: int, width: int, magnitude: float) -> np.ndarray:
    """Where the pixels of moved images come from.

    Args:
      height: of the image, in pixels.
      width: of the image, in pixels.
      magnitude: 0 to 10; under 0 the other way.

    Returns:
      float64 [14, 2, 3], a matrix for each of `OPERATIONS`, see `warp.affine_coordinates`; for
      those that move nothing, the identity.
    """
    share = magnitude / 10
    shear, angle = _MOST_SHEAR * share, math.radians(_MOST_DEGREES * share)
    sine, cosine = math.sin(angle), math.cos(angle)
    moves = {
        # About the upper left corner, as in torchvision.
        "shear_x": [[1, shear, shear * height / 2], [0, 1, 0]],
        "shear_y": [[1, 0, 0], [shear, 1, shear * width / 2]],
        "translate_x": [[1, 0, -int(_MOST_SHIFT * width * share)], [0, 1, 0]],
        "translate_y": [[1, 0, 0], [0, 1, -int(_MOST_SHIFT * height * share)]],
        "rotate": [[cosine, -sine, 0], [sine, cosine, 0]],
    }
    identity = [[1, 0, 0], [0, 1, 0]]
    return np.array([moves.get(name, identity) for name in OPERATIONS], np.float64)


def make_changes(
    factor: tf.Tensor, magnitude: float
) -> tuple[Callable[[tf.Tensor], tf.Tensor], ...]:
    """The operations that move nothing.

    Args:
      factor: float32 [batch, 1, 1, 1], of brightness, colour, contrast and sharpness.
      magnitude: 0 to 10.

    Returns:
      Functions from images to images, uint8 [batch, height, width, channels], by `CHANGES`.
    """
    share = magnitude / 10

    def scale(by: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.Tensor]:
        return lambda images: tf.cast(by(tf.cast(images, tf.float32), factor), tf.uint8)

    return (
        scale(levels.scale_brightness),
        scale(levels.scale_saturation),
        scale(levels.scale_contrast),
        scale(levels.scale_sharpness),
        lambda images: tone.posterize(images, 8 - round(_MOST_BITS * share)),
        # Rounded, or 255 * 0.2 might be more than 51.
        lambda images: tone.solarize(images, round(255 * (1 - share), 6)),
        tone.autocontrast,
        tone.equalize,
    )


def make_factors(magnitude: float) -> np.ndarray:
    """The factors that direction 0 and 1 stand for: float32 [2], multiples of 1 / 4096."""
    ticks = round(_MOST_FACTOR * magnitude / 10 * levels.TICKS)
    return np.array([levels.TICKS + ticks, levels.TICKS - ticks], np.float32) / levels.TICKS


def _take_step(
    batch: Batch, operations: tf.Tensor, directions: tf.Tensor, options: RandAugment
) -> Batch:
    """Applies one operation to each image.

    Each image takes one branch only: moving costs ten times what most others do, and all the
    operations together a dozen times what one does.
    """
    height, width = batch.images.shape[1:3]
    both_ways = [make_matrices(height, width, s * options.magnitude) for s in (1, -1)]
    matrices = tf.gather_nd(np.stack(both_ways), tf.stack([directions, operations], axis=1))
    factors = tf.gather(make_factors(options.magnitude)[:, None, None, None], directions)

    def take(images: tuple, operation: tf.Tensor, matrix: tf.Tensor, factor: tf.Tensor) -> tuple:
        image, *masks = images

        def move() -> tuple:
            place = affine_coordinates(height, width, matrix)
            moved = warp(image, *place, "constant", options.fill)
            return moved, *(warp_nearest(mask, *place) for mask in masks)

        # Early bound: the branches are called only after the loop.
        changes = [
            lambda change=change: (change(image), *masks)
            for change in make_changes(factor, options.magnitude)
        ]
        # 0 is the identity, 1 any move, then the changes.
        branch = tf.maximum(operation[0] - len(MOVES) + 1, tf.minimum(operation[0], 1))
        return tf.switch_case(branch, [lambda: (image, *masks), move, *changes])

    parts = (batch.images,) if batch.masks is None else (batch.images, batch.masks)
    images, *masks = map_images(take, parts, operations, matrices, factors)
    if batch.boxes is not None:
        batch = replace_boxes(batch, move_boxes(batch.boxes, height, width, matrices))
    return batch._replace(images=images, masks=masks[0] if masks else None)
