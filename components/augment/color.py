"""Random steps that change colours, in arithmetic that has no rounding error.

XLA fuses a product and a sum into one instruction, which rounds once; TensorFlow's own kernels
round twice. So factors are multiples of 1 / 4096 here, and images have whole levels: 8 bits of a
level, 12 of a factor and up to 4 before its point fit the 24 bits of a float32, and nothing is
rounded until `round_levels`.
"""

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch, map_images
from image_pipeline.components.augment.options import ColorJitter, GaussianBlur, Grayscale

Part = tuple[Callable[[tf.Tensor, tf.Tensor], tf.Tensor], tf.Tensor]


def color_jitter(batch: Batch, keys: tf.Tensor, options: ColorJitter) -> Batch:
    """Changes brightness, contrast, saturation and hue, in this order.

    Each of the four is torchvision's (`adjust_brightness` and so on), on uint8, with three
    differences: levels are rounded after each of the four (torchvision cuts them off), the mean of
    contrast is a whole number (as in Pillow), and the order is fixed. Factors and shifts are
    multiples of 1 / 4096, so that the four have no error but that rounding.

    Of an image with one channel, only brightness and contrast are changed.
    """
    chances, *numbers = tf.unstack(draws.uniform(keys, 5), axis=1)
    parts = _draw_parts(numbers, options)
    if not parts:
        return batch
    changes = [change for change, _ in parts]

    def jitter(images: tuple, chosen: tf.Tensor, *strengths: tf.Tensor) -> tuple:
        (image,) = images
        for change, strength in zip(changes, strengths, strict=True):
            image = _change_if(chosen[0], change, image, strength)
        return (image,)

    strengths = [strength for _, strength in parts]
    (images,) = map_images(jitter, (batch.images,), chances < options.probability, *strengths)
    return batch._replace(images=images)


def _draw_parts(numbers: list[tf.Tensor], options: ColorJitter) -> list[Part]:
    """The parts that are not left out, each with its factors or shifts, float32 [batch, 1, 1, 1].

    Args:
      numbers: four float32 [batch], uniform in [0, 1).
      options: how far each of the four goes.
    """
    factors = (
        (options.brightness, scale_brightness),
        (options.contrast, scale_contrast),
        (options.saturation, scale_saturation),
    )
    parts: list[Part] = [
        (scale, draw_evenly(number, max(0.0, 1 - strength), 1 + strength))
        for (strength, scale), number in zip(factors, numbers[:3], strict=True)
        if strength > 0
    ]
    if options.hue > 0:
        shifts = draw_evenly(numbers[3], -6 * options.hue, 6 * options.hue)
        parts.append((shift_hue, shifts))
    return parts


def _change_if(
    chosen: tf.Tensor, change: Callable, image: tf.Tensor, strength: tf.Tensor
) -> tf.Tensor:
    """Applies a part in a separate branch.

    XLA would merge several parts into one loop, which recomputes a pixel's colours for each
    channel of each part. It does not merge branches.
    """

    def apply() -> tf.Tensor:
        return tf.cast(change(tf.cast(image, tf.float32), strength), tf.uint8)

    return tf.cond(chosen, apply, lambda: image)


def grayscale(batch: Batch, keys: tf.Tensor, options: Grayscale) -> Batch:
    """Turns some images gray, with three equal channels.

    torchvision's `RandomGrayscale`, with exactly the gray of Pillow's `convert("L")` (torchvision's
    own differs by up to one level). An image with one channel stays as it is.
    """
    chosen = choose(draws.uniform(keys, 1)[:, 0], options.probability)
    gray = tf.cast(to_gray(tf.cast(batch.images, tf.float32)), tf.uint8)
    return batch._replace(images=tf.where(chosen, gray, batch.images))


# Widths between the least and the greatest, evenly spaced. Their weights stand in a table: XLA's
# exp has other bits than TensorFlow's.
_SIGMAS = 257
# Weights are multiples of 1 / 4096, and between the two passes levels are multiples of 1 / 16: so
# a pass has no error but the rounding at its end.
_WEIGHT_TICKS, _LEVEL_TICKS = 4096, 16


def gaussian_blur(batch: Batch, keys: tf.Tensor, options: GaussianBlur) -> Batch:
    """Blurs some images by a Gaussian of a random width, mirrored at the edges.

    torchvision's `GaussianBlur`, whose kernel has a fixed size too: here the radius is three times
    the greatest sigma, but less than the image's side. Weights are rounded to 1 / 4096: levels
    differ by at most one from those of exact weights.
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
    return tf.cast(round_levels(_sum_neighbours(half, across, axis=2)), tf.uint8)


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


TICKS = 4096
# The shares of red, green and blue in gray (ITU-R BT.601) as Pillow has them, in 65536ths.
_GRAY_SHARES = (19595.0, 38470.0, 7471.0)


def draw_evenly(numbers: tf.Tensor, least: float, greatest: float) -> tf.Tensor:
    """Spreads numbers evenly over an interval, in multiples of 1 / 4096.

    Args:
      numbers: float32 [batch], uniform in [0, 1).
      least: lower bound; rounded, as the upper one, to a multiple of 1 / 4096.
      greatest: upper bound, included.

    Returns:
      float32 [batch, 1, 1, 1].
    """
    first, last = round(least * TICKS), round(greatest * TICKS)
    # The floor of a product, whole numbers from there on: there is no sum for XLA to fuse.
    ticks = tf.floor(numbers * float(last - first + 1)) + float(first)
    return (ticks / TICKS)[:, None, None, None]


def choose(numbers: tf.Tensor, probability: float) -> tf.Tensor:
    """Chooses the records that get a step: bool [batch, 1, 1, 1], of uniform float32 [batch]."""
    return (numbers < probability)[:, None, None, None]


def round_levels(levels: tf.Tensor) -> tf.Tensor:
    """Rounds half to even, then clips to [0, 255]; float32 still."""
    return tf.clip_by_value(tf.round(levels), 0.0, 255.0)


def to_gray(levels: tf.Tensor) -> tf.Tensor:
    """The luma of colour, rounded: exactly the numbers of Pillow's `convert("L")`.

    Args:
      levels: float32 [batch, height, width, channels], whole numbers.

    Returns:
      float32 [batch, height, width, 1], whole numbers. One channel is returned as it is.
    """
    if levels.shape[-1] == 1:
        return levels
    red, green, blue = (levels[..., c : c + 1] * _GRAY_SHARES[c] for c in range(3))
    return tf.floor((red + green + blue + 32768.0) / 65536.0)


def scale_brightness(levels: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Blends with black: 0 is black, 1 changes nothing.

    Args:
      levels: float32 [batch, height, width, channels], whole numbers.
      factors: float32 [batch, 1, 1, 1], multiples of 1 / 4096, see `draw_evenly`.

    Returns:
      float32 [batch, height, width, channels], whole numbers in [0, 255].
    """
    return round_levels(levels * factors)


def scale_contrast(levels: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Blends with the mean of the gray image, which is rounded half up, as in Pillow.

    Arguments and result are those of `scale_brightness`.
    """
    gray = tf.cast(to_gray(levels), tf.int32)
    # Integers add up to the same in any order; an image's sum may need more than 32 bits.
    rows = tf.cast(tf.reduce_sum(gray, axis=(2, 3), keepdims=True), tf.int64)
    sums = tf.reduce_sum(rows, axis=1, keepdims=True)
    pixels = levels.shape[1] * levels.shape[2]
    means = (2 * sums + pixels) // (2 * pixels)
    return _blend(levels, tf.cast(means, tf.float32), factors)


def scale_saturation(levels: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Blends with the gray image: 0 is gray, 1 changes nothing. One channel stays as it is.

    Arguments and result are those of `scale_brightness`.
    """
    return levels if levels.shape[-1] == 1 else _blend(levels, to_gray(levels), factors)


def _blend(levels: tf.Tensor, others: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    return round_levels(others + factors * (levels - others))


def scale_sharpness(levels: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Blends with a smoothed image (Pillow's filter SMOOTH), which keeps the pixels of the edge.

    Arguments and result are those of `scale_brightness`.
    """
    height, width = levels.shape[1:3]
    if min(height, width) < 3:
        return levels
    rows = levels[:, :-2] + levels[:, 1:-1] + levels[:, 2:]
    sums = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]
    inner = levels[:, 1:-1, 1:-1]
    # No multiple of 1 / 13 is half-way between two integers, so rounding does not depend on bits.
    smooth = tf.round((sums + 4.0 * inner) / 13.0)
    margins = [[0, 0], [1, 1], [1, 1], [0, 0]]
    return _blend(levels, levels + tf.pad(smooth - inner, margins), factors)


def shift_hue(levels: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    """Shifts the hue of HSV, without a division.

    A pixel's greatest level is the value v, greatest less least the chroma c. Hues are held in
    sixths of the circle times c: then they are whole numbers before the shift.

    Args:
      levels: float32 [batch, height, width, channels], whole numbers. One channel stays as it is.
      shifts: float32 [batch, 1, 1, 1] in [-3, 3], in sixths of the circle, multiples of 1 / 4096.

    Returns:
      float32 [batch, height, width, channels], whole numbers in [0, 255].
    """
    if levels.shape[-1] == 1:
        return levels
    red, green, blue = (levels[..., c : c + 1] for c in range(3))
    value = tf.maximum(tf.maximum(red, green), blue)
    chroma = value - tf.minimum(tf.minimum(red, green), blue)
    from_green = tf.where(green == value, blue - red + 2 * chroma, red - green + 4 * chroma)
    hue = _wrap(tf.where(red == value, green - blue, from_green) + shifts * chroma, chroma)
    # With k = (n + hue) mod 6 and n = 5, 3, 1: v - c * max(0, min(k, 4 - k, 1)), times c.
    turned = _wrap(hue + tf.constant([5.0, 3.0, 1.0]) * chroma, chroma)
    lack = tf.clip_by_value(tf.minimum(turned, 4 * chroma - turned), 0.0, chroma)
    return tf.round(value - lack)


def _wrap(hue: tf.Tensor, chroma: tf.Tensor) -> tf.Tensor:
    """Brings a hue of at most one circle off back to [0, 6) times the chroma."""
    circle = 6 * chroma
    hue = tf.where(hue < 0, hue + circle, hue)
    return tf.where(hue >= circle, hue - circle, hue)
