"""Turns images, as torchvision's RandomRotation does."""

import math

import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.boxes import replace_boxes
from image_pipeline.components.augment.options import Rotate
from image_pipeline.components.augment.warp import (
    affine_coordinates,
    move_boxes,
    warp,
    warp_nearest,
)


def rotate(batch: Batch, keys: tf.Tensor, options: Rotate) -> Batch:
    """Turns every image about its centre by an angle of its own, masks and boxes with it.

    Images are sampled bilinearly, masks take the nearest pixel, and a box becomes the least one
    around its turned corners. With "reflect" a mask is mirrored with its image.

    Args:
      batch: the batch.
      keys: uint64 [batch].
      options: the greatest angle, and what comes in from outside.
    """
    share = 2 * tf.cast(draws.uniform(keys, 1)[:, 0], tf.float64) - 1
    matrix = inverse_rotation(share * math.radians(options.degrees))
    height, width = batch.images.shape[1:3]
    rows, columns = affine_coordinates(height, width, matrix)
    masks = batch.masks
    if masks is not None:
        masks = warp_nearest(masks, rows, columns, mode=options.mode)
    if batch.boxes is not None:
        batch = replace_boxes(batch, move_boxes(batch.boxes, height, width, matrix))
    images = warp(batch.images, rows, columns, options.mode, options.fill)
    return batch._replace(images=images, masks=masks)


def inverse_rotation(radians: tf.Tensor) -> tf.Tensor:
    """Where a turned image's pixels stand in the image as it was.

    Args:
      radians: float64 [batch], positive counter-clockwise, as in torchvision.

    Returns:
      float64 [batch, 2, 3], see `affine_coordinates`.
    """
    cosine, sine, zero = tf.cos(radians), tf.sin(radians), tf.zeros_like(radians)
    # y points down.
    rows = [tf.stack([cosine, -sine, zero], axis=-1), tf.stack([sine, cosine, zero], axis=-1)]
    return tf.stack(rows, axis=1)
