"""An antialiased resize in whole numbers, of the window that is wanted. TensorFlow ops only.

As Pillow's bilinear filter does, it averages over a triangle: along the height, then along the
width. The triangle's heights over the pixels are ratios of whole numbers, of which weights are
made that are multiples of 2⁻¹³ and sum to one; what the height gives is rounded to eighths of a
level. So all products and sums are float32 numbers of at most 24 bits, and exact: `fast_resample`
gives the same bits, in whatever order it adds.
"""

import tensorflow as tf

WEIGHT_ONE = 2**13
BETWEEN = 8
# Lines of the result that one matrix product makes: few, since most of a larger matrix is zero.
_BLOCK = 8


def resample_window(
    image: tf.Tensor, size: tf.Tensor, offset: tf.Tensor, window: tuple[int, int]
) -> tf.Tensor:
    """Resizes an image, antialiased, and cuts out a window, whose pixels alone are computed.

    Args:
      image: uint8 or float32 [height, width, channels], the channels known.
      size: int32 [2], height and width of the resized image, in pixels.
      offset: int32 [2], top and left of the window in it.
      window: height and width of the window; it must lie inside.

    Returns:
      [*window, channels] of the same type. Of float32 neither weights nor results are rounded.
    """
    (rows, columns), channels = window, image.shape[-1]
    is_exact = image.dtype == tf.uint8
    height, width = tf.unstack(tf.shape(image)[:2])
    with tf.device("/CPU:0"):  # A GPU may multiply matrices with fewer bits.
        down, down_weights = _find_taps(height, size[0], offset[0], rows, is_exact)
        across, across_weights = _find_taps(width, size[1], offset[1], columns, is_exact)
        left, breadth = across[0, 0], across[-1, -1] - across[0, 0] + 1
        needed = tf.cast(image[:, left : left + breadth], tf.float32)
        lines = tf.reshape(needed, [height, breadth * channels])
        lines = _average(lines, down, down_weights * BETWEEN, rows)
        lines = tf.round(lines) if is_exact else lines
        turned = tf.transpose(tf.reshape(lines, [rows, breadth, channels]), [1, 0, 2])
        lines = tf.reshape(turned, [breadth, rows * channels])
        lines = _average(lines, across - left, across_weights * (1 / BETWEEN), columns)
        pixels = tf.cast(tf.round(lines), tf.uint8) if is_exact else lines
        return tf.transpose(tf.reshape(pixels, [columns, rows, channels]), [1, 0, 2])


def _find_taps(
    side: tf.Tensor, resized: tf.Tensor, offset: tf.Tensor, count: int, is_exact: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Which pixels make those of the window along one side, and their weights, in blocks.

    The triangle around the middle of a pixel of the resized side reaches a pixel to either side, of
    the resized side or of the image's, whichever is larger. In units of 1 / (2 · resized) pixels
    all middles and the reach are whole numbers.

    Args:
      side: int32 scalar, the image's length in pixels.
      resized: int32 scalar, that of the resized image.
      offset: int32 scalar, where in that the window begins.
      count: its length.
      is_exact: whether weights are multiples of 1 / `WEIGHT_ONE`.

    Returns:
      int32 [blocks, places], pixels from 0 to side - 1, and their float32 [blocks, `_BLOCK`,
      places]. The last block repeats the last pixel's weights.
    """
    side, resized, offset = (tf.cast(each, tf.int64) for each in (side, resized, offset))
    reach = 2 * tf.maximum(side, resized)
    blocks = -(-count // _BLOCK)
    numbers = tf.minimum(tf.range(blocks * _BLOCK, dtype=tf.int64), count - 1)
    middles = tf.reshape((2 * (offset + numbers) + 1) * side, [blocks, _BLOCK])
    first = (middles[:, 0] - reach - resized) // (2 * resized) + 1
    most = (2 * (_BLOCK - 1) * side + 2 * reach + 2 * resized - 1) // (2 * resized)
    places = first[:, tf.newaxis, tf.newaxis] + tf.range(most)
    distances = tf.abs((2 * places + 1) * resized - middles[..., tf.newaxis])
    is_inside = (places >= 0) & (places < side)
    heights = tf.where(is_inside, tf.maximum(reach - distances, 0), 0)
    weights = _share_out(heights) if is_exact else _divide(heights)
    return tf.cast(tf.clip_by_value(places[:, 0], 0, side - 1), tf.int32), weights


def _share_out(heights: tf.Tensor) -> tf.Tensor:
    """Weights in the ratio of int64 [..., places]: float32, rounded, whose sum is exactly one."""
    total = tf.reduce_sum(heights, axis=-1, keepdims=True)
    sums = (2 * WEIGHT_ONE * tf.cumsum(heights, axis=-1) + total) // (2 * total)
    shares = sums - tf.pad(sums, [[0, 0], [0, 0], [1, 0]])[..., :-1]
    return tf.cast(shares, tf.float32) * (1 / WEIGHT_ONE)


def _divide(heights: tf.Tensor) -> tf.Tensor:
    return tf.cast(heights / tf.reduce_sum(heights, axis=-1, keepdims=True), tf.float32)


def _average(lines: tf.Tensor, places: tf.Tensor, weights: tf.Tensor, count: int) -> tf.Tensor:
    """Weighted means of lines: float32 [length, values] → [count, values]."""
    averages = tf.matmul(weights, tf.gather(lines, places))
    return tf.reshape(averages, [-1, tf.shape(lines)[1]])[:count]
