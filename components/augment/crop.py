"""Where random crops are taken: torchvision's rule, for a whole batch at once."""

import math

import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.options import RandomResizedCrop

# torchvision.transforms.RandomResizedCrop draws up to ten crops before it takes the fallback.
CROP_TRIES = 10


def draw_crop_windows(sizes: tf.Tensor, keys: tf.Tensor, options: RandomResizedCrop) -> tf.Tensor:
    """Draws a crop of each image by torchvision's rule (`RandomResizedCrop.get_params`).

    Ten times an area (uniform) and an aspect ratio (uniform in its logarithm) are drawn; the first
    pair that fits the image is placed at random. If none fits, the window is the largest
    central one whose aspect ratio is within the bounds.

    Args:
      sizes: int [batch, 2], the images' heights and widths in pixels.
      keys: uint64 [batch].
      options: bounds of the crops' area and aspect ratio.

    Returns:
      int32 [batch, 4]: top, left, height and width of each crop, in pixels.
    """
    image_sizes = tf.cast(sizes, tf.float64)
    drawn = tf.cast(draws.uniform(keys, 2 * CROP_TRIES + 2), tf.float64)
    tried = _crop_sizes(image_sizes, drawn[:, :CROP_TRIES], drawn[:, CROP_TRIES:-2], options)
    fits = tf.reduce_all((tried >= 1) & (tried <= image_sizes[:, None]), axis=2)
    any_fits = tf.reduce_any(fits, axis=1)[:, None]
    first = tf.gather(tried, tf.argmax(fits, axis=1), batch_dims=1)
    crop_sizes = tf.where(any_fits, first, _largest_central_sizes(image_sizes, options))
    room = image_sizes - crop_sizes
    # The corner is one of the integers from 0 to room, each equally likely.
    corners = tf.where(any_fits, tf.floor(drawn[:, -2:] * (room + 1)), tf.floor(room / 2))
    return tf.cast(tf.concat([corners, crop_sizes], axis=1), tf.int32)


def _crop_sizes(
    image_sizes: tf.Tensor, areas: tf.Tensor, aspects: tf.Tensor, options: RandomResizedCrop
) -> tf.Tensor:
    """Heights and widths that may not fit: float64 [batch, tries, 2], whole numbers.

    Areas and aspects are float64 [batch, tries] in [0, 1).
    """
    least_area, most_area = options.area
    least_log, most_log = (math.log(aspect) for aspect in options.aspect)
    shares = least_area + areas * (most_area - least_area)
    area = tf.reduce_prod(image_sizes, axis=1)[:, None] * shares
    aspect = tf.exp(least_log + aspects * (most_log - least_log))
    return tf.round(tf.stack([tf.sqrt(area / aspect), tf.sqrt(area * aspect)], axis=2))


def _largest_central_sizes(image_sizes: tf.Tensor, options: RandomResizedCrop) -> tf.Tensor:
    """The largest heights and widths whose aspect ratio is within bounds: float64 [batch, 2]."""
    heights, widths = tf.unstack(image_sizes, axis=1)
    least, most = options.aspect
    largest_heights = tf.minimum(heights, tf.round(widths / least))
    largest_widths = tf.minimum(widths, tf.round(heights * most))
    return tf.maximum(tf.stack([largest_heights, largest_widths], axis=1), 1)
