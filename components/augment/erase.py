"""Hides a region of each image. Masks and boxes stay: what they name is still there, unseen."""

import math

import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch, Rectangles, is_covered
from image_pipeline.components.augment.options import Cutout, RandomErasing

# As many as torchvision's RandomErasing makes.
_TRIES = 10


def cutout(batch: Batch, keys: tf.Tensor, options: Cutout) -> Batch:
    """Fills a square around a random pixel; any part outside the image is lost.

    DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout",
    2017: the centre is any pixel of the image. An even square's centre is the pixel to the lower
    right of its middle.
    """
    height, width = batch.images.shape[1:3]
    side = options.find_size_px(height, width)
    numbers = draws.uniform(keys, 2)
    top = tf.cast(numbers[:, 0] * height, tf.int32) - side // 2
    left = tf.cast(numbers[:, 1] * width, tf.int32) - side // 2
    square = Rectangles(top, left, top + side, left + side)
    return batch._replace(images=_fill(batch.images, square, options.fill))


def random_erasing(batch: Batch, keys: tf.Tensor, options: RandomErasing) -> Batch:
    """Fills a rectangle, by the rule of torchvision's RandomErasing with `value=fill`.

    Zhong et al., "Random Erasing Data Augmentation", 2017. An image whose ten rectangles are all as
    high or as wide as itself, or more, stays unchanged.
    """
    height, width = batch.images.shape[1:3]
    numbers = draws.uniform(keys, 3 + 2 * _TRIES)
    heights, widths = _draw_sizes(numbers[:, 3:], height, width, options)
    fits = (heights < height) & (widths < width)
    first = tf.argmax(fits, axis=1, output_type=tf.int32)
    erased_height = tf.gather(heights, first, batch_dims=1)
    erased_width = tf.gather(widths, first, batch_dims=1)
    is_erased = (numbers[:, 0] < options.probability) & tf.reduce_any(fits, axis=1)
    top = _draw_start(numbers[:, 1], height, erased_height)
    left = _draw_start(numbers[:, 2], width, erased_width)
    bottom = tf.where(is_erased, top + erased_height, top)
    rectangles = Rectangles(top, left, bottom, left + erased_width)
    return batch._replace(images=_fill(batch.images, rectangles, options.fill))


def _draw_sizes(
    numbers: tf.Tensor, height: int, width: int, options: RandomErasing
) -> tuple[tf.Tensor, tf.Tensor]:
    """The sizes of the rectangles that are tried.

    In float64, in which a last bit more or less (XLA's exponential is not TensorFlow's) never
    shows after rounding.

    Args:
      numbers: float32 [batch, 2 * tries] in [0, 1).
      height: of the image, in pixels.
      width: of the image, in pixels.
      options: the areas and aspect ratios.

    Returns:
      Heights and widths, each int32 [batch, tries].
    """
    shares = tf.cast(numbers, tf.float64)
    least, greatest = options.area
    areas = (least + shares[:, :_TRIES] * (greatest - least)) * (height * width)
    least, greatest = (math.log(aspect) for aspect in options.aspect)
    aspects = tf.exp(least + shares[:, _TRIES:] * (greatest - least))
    # torchvision's aspect ratio is height / width here.
    heights, widths = tf.sqrt(areas * aspects), tf.sqrt(areas / aspects)
    return tf.cast(tf.round(heights), tf.int32), tf.cast(tf.round(widths), tf.int32)


def _draw_start(numbers: tf.Tensor, length: int, erased: tf.Tensor) -> tf.Tensor:
    """The first of some rows or columns: all positions are equally likely."""
    places = tf.maximum(length - erased + 1, 1)
    return tf.cast(numbers * tf.cast(places, tf.float32), tf.int32)


def _fill(images: tf.Tensor, rectangles: Rectangles, level: int) -> tf.Tensor:
    """Gives the pixels in the rectangles one level."""
    height, width = images.shape[1:3]
    return tf.where(is_covered(height, width, rectangles), tf.constant(level, images.dtype), images)
