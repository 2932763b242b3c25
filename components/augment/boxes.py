"""Boxes that move with their images, see `Batch`."""

import tensorflow as tf

from image_pipeline.components.augment.batch import Batch

# Shares are rounded to these steps, which no order of operations rounds otherwise.
_STEPS = 2.0**16
# A thinner box is what rounding left of one that touches the image from outside.
_LEAST_SIDE = 2.0**-20


def replace_boxes(batch: Batch, moved: tf.Tensor) -> Batch:
    """Gives a batch the boxes as a step has moved them: clipped, and visible by as much less.

    Args:
      batch: with boxes.
      moved: float [batch, boxes, 4], where they are now, perhaps outside.
    """
    visible = batch.visible
    if visible is not None:
        visible = tf.round(visible * shares_inside(moved) * _STEPS) / _STEPS
    return batch._replace(boxes=clip_boxes(moved), visible=visible)


def shares_inside(boxes: tf.Tensor) -> tf.Tensor:
    """Which share of each box's area is inside the image: float32 [batch, boxes]; 0 of no area.

    Args:
      boxes: float [batch, boxes, 4], as in `Batch`, not clipped.
    """
    exact = tf.cast(boxes, tf.float64)
    whole, inside = _areas(exact), _areas(tf.clip_by_value(exact, 0, 1))
    share = tf.where(whole > 0, inside / tf.where(whole > 0, whole, 1), 0)
    return tf.cast(tf.round(share * _STEPS) / _STEPS, tf.float32)


def clip_boxes(boxes: tf.Tensor) -> tf.Tensor:
    """Cuts boxes at the image's edges; those of which nothing is left become all zeros.

    Args:
      boxes: float64 or float32 [batch, boxes, 4]: top, left, bottom, right as shares of height and
        width.

    Returns:
      float32 [batch, boxes, 4].
    """
    clipped = tf.cast(tf.clip_by_value(boxes, 0, 1), tf.float32)
    sides = clipped[..., 2:] - clipped[..., :2]
    has_area = tf.reduce_all(sides > _LEAST_SIDE, axis=-1, keepdims=True)
    return tf.where(has_area, clipped, tf.zeros_like(clipped))


def _areas(boxes: tf.Tensor) -> tf.Tensor:
    sides = tf.maximum(boxes[..., 2:] - boxes[..., :2], 0)
    return sides[..., 0] * sides[..., 1]
