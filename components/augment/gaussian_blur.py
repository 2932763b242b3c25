"""The step gaussian_blur."""

import math

import numpy as np
import tensorflow as tf

from image_pipeline.components.augment import draws, levels
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.options import GaussianBlur
from image_pipeline.components.augment.per_image import map_images

# Widths between the least and the greatest, evenly spaced. Their weights stand in a table: XLA's
# exp has other bits than TensorFlow's.
_SIGMAS = 257
# Weights are multiples of 1 / 4096, and between the two passes levels are multiples of 1 / 16: so
# a pass has no error but the rounding at its end, see `levels`.
_WEIGHT_TICKS, _LEVEL_TICKS = 4096, 16


def gaussian_blur(batch: Batch, keys: tf.Tensor, options: GaussianBlur) -> Batch:
    """Blurs some images by a Gaussian of a random width, mirrored at the edges.

    torchvision's `GaussianBlur`, whose kernel has a fixed size too: here the radius is three times
    the greatest sigma, but less than the image's side. Weights are rounded to 1 / 4096: levels
    differ by at most one from those of exact weights.

    Args:
      batch: see `Batch`; only its images change.
      keys: uint64 [batch].
      options: least and greatest sigma, and the probability.
    """
    chances, numbers = tf.unstack(draws.uniform(keys, 2), axis=1)
    places = tf.cast(numbers * float(_SIGMAS), tf.int32)

    def blur_some(images: tuple, chosen: tf.Tensor, place: tf.Tensor) -> tuple:
        def blur_it() -> tf.Tensor:
            return blur(images[0], options.sigma_px, place)

        return (tf.cond(chosen[0], blur_it, lambda: images[0]),)

    (images,) = map_images(blur_some, (batch.images,), chances < options.probability, places)
    return batch._replace(images=images)


def blur(images: tf.Tensor, sigma_px: tuple[float, float], places: tf.Tensor) -> tf.Tensor:
    """Blurs images, each by its own width.

    Args:
      images: uint8 [batch, height, width, channels].
      sigma_px: least and greatest width.
      places: int32 [batch], the images' widths among the 257 between the two.

    Returns:
      uint8 [batch, height, width, channels].
    """
    height, width = images.shape[1:3]
    down = tf.gather(weigh_taps(sigma_px, height), places)
    across = tf.gather(weigh_taps(sigma_px, width), places)
    half = _sum_neighbours(tf.cast(images, tf.float32), down, axis=1)
    half = tf.round(half * _LEVEL_TICKS) / _LEVEL_TICKS
    return tf.cast(levels.round_levels(_sum_neighbours(half, across, axis=2)), tf.uint8)


def weigh_taps(sigma_px: tuple[float, float], side_px: int) -> np.ndarray:
    """The halves of the Gaussian kernels of 257 widths, evenly spaced.

    Args:
      sigma_px: the least and the greatest standard deviation.
      side_px: the image's side; the mirror image at an edge is shorter by one.

    Returns:
      float32 [257, 1 + radius], weights from the centre outwards, multiples of 1 / 4096; the
      centre and twice the others sum to 1.
    """
    radius = min(math.ceil(3 * sigma_px[1]), side_px - 1)
    sigmas = np.linspace(*sigma_px, _SIGMAS)[:, None]
    heights = np.exp(-0.5 * (np.arange(radius + 1) / sigmas) ** 2)
    sums = 2 * heights.sum(axis=1, keepdims=True) - heights[:, :1]
    ticks = np.round(_WEIGHT_TICKS * heights / sums)
    ticks[:, 0] = _WEIGHT_TICKS - 2 * ticks[:, 1:].sum(axis=1)
    return (ticks / _WEIGHT_TICKS).astype(np.float32)


def _sum_neighbours(images: tf.Tensor, weights: tf.Tensor, axis: int) -> tf.Tensor:
    """Sums neighbours along one axis by their weights.

    Args:
      images: float32 [batch, height, width, channels].
      weights: float32 [batch, 1 + radius], see `weigh_taps`.
      axis: 1 or 2.

    Returns:
      float32 [batch, height, width, channels].
    """
    _, height, width, channels = images.shape
    radius = weights.shape[1] - 1
    padding = [[0, 0]] * 4
    padding[axis] = [radius, radius]
    padded = tf.pad(images, padding, mode="REFLECT")
    # Pixels of a row and channels as one axis: XLA's code for that is twice as fast.
    rows = tf.reshape(padded, [-1, padded.shape[1], padded.shape[2] * channels])

    def shift(places: int) -> tf.Tensor:
        first = radius + places
        if axis == 1:
            return rows[:, first : first + height]
        return rows[:, :, first * channels : (first + width) * channels]

    total = weights[:, 0, None, None] * shift(0)
    for distance in range(1, radius + 1):
        total += weights[:, distance, None, None] * (shift(-distance) + shift(distance))
    return tf.reshape(total, [-1, height, width, channels])
