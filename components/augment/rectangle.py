"""Rectangles of whole pixels, one an image."""

from typing import NamedTuple

import tensorflow as tf


class Rectangles(NamedTuple):
    """The rows [top, bottom) and the columns [left, right) of each image: int32 [batch] each.

    A part may lie outside the image, and there may be nothing in it.
    """

    top: tf.Tensor
    left: tf.Tensor
    bottom: tf.Tensor
    right: tf.Tensor


def is_covered(height: int, width: int, rectangles: Rectangles) -> tf.Tensor:
    """Which pixels of the images lie in their rectangles: bool [batch, height, width, 1]."""
    row = tf.range(height)[None, :, None, None]
    column = tf.range(width)[None, None, :, None]
    top, left, bottom, right = (side[:, None, None, None] for side in rectangles)
    return (row >= top) & (row < bottom) & (column >= left) & (column < right)
