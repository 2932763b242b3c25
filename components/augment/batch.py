"""What the random steps work on: a batch of images and what moves with them."""

from typing import NamedTuple

import tensorflow as tf


class Batch(NamedTuple):
    """A batch of views, uint8 between any two steps.

    Attributes:
      images: uint8 [batch, height, width, channels], 1 or 3 channels.
      masks: uint8 [batch, height, width, 1], class ids of the pixels, 255 for none; or
        None.
      boxes: float32 [batch, boxes, 4]: top, left, bottom, right as shares of height and width, or
        None. A box without area only pads the list.
      own_share: float32 [batch], the share of an image and its label that is its own; the rest is
        its partner's, see `components.augment.partner`. None if no image is mixed.
      visible: float32 [batch, boxes], the share of each box that no step has moved out of the
        image; None if nobody asks.
    """

    images: tf.Tensor
    masks: tf.Tensor | None = None
    boxes: tf.Tensor | None = None
    own_share: tf.Tensor | None = None
    visible: tf.Tensor | None = None
