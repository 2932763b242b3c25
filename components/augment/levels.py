"""Arithmetic on levels of gray and colour that has no rounding error: the same bits everywhere.

XLA fuses a product and a sum into one instruction, which rounds once; TensorFlow's own kernels
round twice. So factors are multiples of 1 / 4096 here, and images have whole levels: 8 bits of a
level, 12 of a factor and up to 4 before its point fit the 24 bits of a float32, and nothing is
rounded until `round_levels`.
"""

import tensorflow as tf

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
