"""Mirrors images, as torchvision's RandomHorizontalFlip and RandomVerticalFlip do."""

import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.boxes import clip_boxes
from image_pipeline.components.augment.options import FlipHorizontal, FlipVertical


def flip_horizontal(batch: Batch, keys: tf.Tensor, options: FlipHorizontal) -> Batch:
    """Mirrors some images left to right, with their masks and boxes.

    Args:
      batch: the batch.
      keys: uint64 [batch].
      options: with which probability.
    """
    return mirror(batch, draws.uniform(keys, 1)[:, 0] < options.probability)


def flip_vertical(batch: Batch, keys: tf.Tensor, options: FlipVertical) -> Batch:
    """Mirrors some images top to bottom, with their masks and boxes.

    Args:
      batch: the batch.
      keys: uint64 [batch].
      options: with which probability.
    """
    return _reverse(batch, draws.uniform(keys, 1)[:, 0] < options.probability, axis=1)


def mirror(batch: Batch, mirrored: tf.Tensor) -> Batch:
    """Mirrors the chosen images left to right, with their masks and boxes.

    Args:
      batch: the batch.
      mirrored: bool [batch], whether to mirror the image.
    """
    return _reverse(batch, mirrored, axis=2)


def _reverse(batch: Batch, chosen: tf.Tensor, axis: int) -> Batch:
    """Reverses the rows (axis 1) or the columns (axis 2) of the chosen images."""

    def reverse(pixels: tf.Tensor) -> tf.Tensor:
        return tf.where(chosen[:, None, None, None], tf.reverse(pixels, [axis]), pixels)

    masks, boxes = batch.masks, batch.boxes
    if masks is not None:
        masks = reverse(masks)
    if boxes is not None:
        top, left, bottom, right = tf.unstack(boxes, axis=-1)
        sides = (
            (1 - bottom, left, 1 - top, right) if axis == 1 else (top, 1 - right, bottom, 1 - left)
        )
        # Not cut: a mirrored box is as visible as it was.
        boxes = tf.where(chosen[:, None, None], clip_boxes(tf.stack(sides, axis=-1)), boxes)
    return batch._replace(images=reverse(batch.images), masks=masks, boxes=boxes)
