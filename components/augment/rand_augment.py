"""The step rand_augment, and those of its operations that only it has: Pillow's ImageOps."""

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from image_pipeline.components.augment import color, draws
from image_pipeline.components.augment.batch import Batch, map_images, replace_boxes
from image_pipeline.components.augment.geometry import (
    affine_coordinates,
    move_boxes,
    warp,
    warp_nearest,
)
from image_pipeline.components.augment.options import RandAugment

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
      float64 [14, 2, 3], a matrix for each of `OPERATIONS`, see `geometry.affine_coordinates`; for
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
        scale(color.scale_brightness),
        scale(color.scale_saturation),
        scale(color.scale_contrast),
        scale(color.scale_sharpness),
        lambda images: posterize(images, 8 - round(_MOST_BITS * share)),
        # Rounded, or 255 * 0.2 might be more than 51.
        lambda images: solarize(images, round(255 * (1 - share), 6)),
        autocontrast,
        equalize,
    )


def make_factors(magnitude: float) -> np.ndarray:
    """The factors that direction 0 and 1 stand for: float32 [2], multiples of 1 / 4096."""
    ticks = round(_MOST_FACTOR * magnitude / 10 * color.TICKS)
    return np.array([color.TICKS + ticks, color.TICKS - ticks], np.float32) / color.TICKS


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


_LEVELS = 256


def posterize(images: tf.Tensor, bits: int) -> tf.Tensor:
    """Keeps the uppermost bits of every level.

    Args:
      images: uint8 [batch, height, width, channels].
      bits: how many, 0 to 8.
    """
    return tf.bitwise.bitwise_and(images, tf.constant(_LEVELS - 2 ** (8 - bits), tf.uint8))


def solarize(images: tf.Tensor, threshold: float) -> tf.Tensor:
    """Inverts all levels that are not under a threshold.

    Args:
      images: uint8 [batch, height, width, channels].
      threshold: 0 to 255.
    """
    return tf.where(images >= math.ceil(threshold), 255 - images, images)


def autocontrast(images: tf.Tensor) -> tf.Tensor:
    """Spreads each channel's levels over 0 to 255, rounding down; one level alone stays.

    Where a new level is a whole number before it is rounded, Pillow now and then has the one below:
    a rounding error that is not copied here.

    Args:
      images: uint8 [batch, height, width, channels].
    """
    levels = tf.cast(images, tf.float32)
    least = tf.reduce_min(levels, axis=(1, 2), keepdims=True)
    spread = tf.reduce_max(levels, axis=(1, 2), keepdims=True) - least
    # Half a unit more and the quotient never lies at a whole number: its last bit does not matter.
    quotients = (2 * 255 * (levels - least) + 1) / tf.maximum(2 * spread, 1)
    return tf.where(spread > 0, tf.cast(tf.floor(quotients), tf.uint8), images)


def equalize(images: tf.Tensor) -> tf.Tensor:
    """Gives each channel levels that are about equally frequent, in their old order.

    Args:
      images: uint8 [batch, height, width, channels].
    """
    channels = tf.shape(images)[0] * images.shape[3]
    firsts = tf.reshape(tf.range(channels) * _LEVELS, [-1, 1, 1, images.shape[3]])
    places = tf.cast(images, tf.int32) + firsts
    flat = tf.reshape(places, [-1, 1])
    counts = tf.scatter_nd(flat, tf.ones_like(flat[:, 0]), [channels * _LEVELS])
    table = _equalizing_table(tf.reshape(counts, [-1, _LEVELS]))
    return tf.gather(tf.reshape(table, [-1]), places)


def _equalizing_table(counts: tf.Tensor) -> tf.Tensor:
    """The new levels by Pillow's formula.

    Args:
      counts: int32 [channels, 256], how many pixels have each level.

    Returns:
      uint8 [channels, 256].
    """
    before = tf.cumsum(counts, axis=1, exclusive=True)
    pixels = tf.reduce_sum(counts, axis=1, keepdims=True)
    # All pixels but those of the greatest level there is: the pixels before a level, while they
    # are not yet all of them.
    but_last = tf.reduce_max(tf.where(before < pixels, before, 0), axis=1, keepdims=True)
    step = but_last // 255
    levels = tf.minimum((step // 2 + before) // tf.maximum(step, 1), 255)
    return tf.cast(tf.where(step > 0, levels, tf.range(_LEVELS)), tf.uint8)
