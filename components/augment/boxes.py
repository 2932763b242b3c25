"""Boxes that move with their images, see `Batch`."""

import tensorflow as tf


def clip_boxes(boxes: tf.Tensor) -> tf.Tensor:
    """Cuts boxes at the image's edges; those with nothing inside become all zeros.

    Args:
      boxes: float64 or float32 [batch, boxes, 4]: top, left, bottom, right as shares of height and
        width.

    Returns:
      float32 [batch, boxes, 4].
    """
    clipped = tf.cast(tf.clip_by_value(boxes, 0, 1), tf.float32)
    has_area = tf.reduce_all(clipped[..., 2:] > clipped[..., :2], axis=-1, keepdims=True)
    return tf.where(has_area, clipped, tf.zeros_like(clipped))
