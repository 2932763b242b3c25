"""What the random steps work on: a batch of images, and what moves with them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class Batch(NamedTuple):
    """A batch of views between any two steps.

    Attributes:
      images: [batch, height, width, channels] of `view.dtype`; steps that need levels from 0 to 255
        or colours get uint8, or 1 or 3 channels, only, see `options.RULES`.
      masks: uint8 [batch, height, width, 1], class ids of the pixels, 255 for none; or
        None.
      boxes: float32 [batch, boxes, 4]: top, left, bottom, right as shares of height and width, or
        None. A box without area only pads the list.
      own_share: float32 [batch], the share of an image and its label that is its own; the rest is
        its partner's, see `components.augment.mix`. None if no image is mixed.
      visible: float32 [batch, boxes], the share of each box that no step has moved out of the
        image; None if nobody asks.
    """

    images: tf.Tensor
    masks: tf.Tensor | None = None
    boxes: tf.Tensor | None = None
    own_share: tf.Tensor | None = None
    visible: tf.Tensor | None = None


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


def map_images(
    function: Callable[..., tuple[tf.Tensor, ...]],
    images: tuple[tf.Tensor, ...],
    *arguments: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
    """Calls a function with one image at a time; in it, `tf.cond` and `tf.switch_case` save work.

    A batched operation makes every image's result, also where `tf.where` then drops it. Under XLA
    the loop itself costs about 10 us an image of 224 x 224, and a branch not taken nothing.

    Args:
      function: from a tuple of images, each [1, height, width, channels], and the arguments' [1],
        [1, ...] parts to a tuple of new images, of the same shapes.
      images: uint8 [batch, height, width, channels] each, such as images and masks.
      *arguments: [batch, ...] each.

    Returns:
      uint8 [batch, height, width, channels] each.
    """

    def call(parts: tuple[Any, ...]) -> tuple[tf.Tensor, ...]:
        image, *rest = tf.nest.map_structure(lambda part: part[None], parts)
        return tuple(each[0] for each in function(image, *rest))

    signature = tuple(tf.TensorSpec(each.shape[1:], each.dtype) for each in images)
    return tf.map_fn(call, (images, *arguments), fn_output_signature=signature)
