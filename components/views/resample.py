"""An antialiased resize in whole numbers, of the window that is wanted. TensorFlow ops only.

As Pillow's bilinear filter does, it averages over a triangle: along the height, then along the
width. The triangle's heights over the pixels are ratios of whole numbers, of which weights are
made that are multiples of 2⁻¹³ and sum to one; what the height gives is rounded to eighths of a
level. So all products and sums are float32 numbers of at most 24 bits, and exact: `fast_resample`
gives the same bits, in whatever order it adds.
"""

import tensorflow as tf

from image_pipeline.components.views.fast_resample import BETWEEN, WEIGHT_ONE

# Lines of the result that one matrix product makes: few, since most of a larger matrix is zero.
_BLOCK = 8
# Columns are averaged in strips, of which the floats take so much: a camera's photo has many.
_STRIP_BYTES = 2**23


def resample_window(
    image: tf.Tensor, size: tf.Tensor, offset: tf.Tensor, window: tuple[int, int]
) -> tf.Tensor:
    """Resizes an image, antialiased, and cuts out a window, whose pixels alone are computed.

    Args:
      image: uint8 [height, width, channels], the channels known.
      size: int32 [2], height and width of the resized image, in pixels.
      offset: int32 [2], top and left of the window in it.
      window: height and width of the window; it must lie inside.

    Returns:
      uint8 [*window, channels].
    """
    (rows, columns), channels = window, image.shape[-1]
    height, width = tf.unstack(tf.shape(image)[:2])
    with tf.device("/CPU:0"):  # A GPU may multiply matrices with fewer bits.
        down, weights = _find_taps(height, size[0], offset[0], rows)
        across, across_weights = _find_taps(width, size[1], offset[1], columns)
        left, breadth = across[0, 0], across[-1, -1] - across[0, 0] + 1
        lines = _average_columns(image, left, breadth, down, weights * BETWEEN, rows)
        lines = _average(lines, across - left, across_weights * (1 / BETWEEN), columns)
        pixels = tf.cast(tf.round(lines), tf.uint8)
        return tf.transpose(tf.reshape(pixels, [columns, rows, channels]), [1, 0, 2])


def _find_taps(
    side: tf.Tensor, resized: tf.Tensor, offset: tf.Tensor, count: int
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

    Returns:
      int32 [blocks, places], pixels from 0 to side - 1, and their float32 [blocks, lines, places],
      multiples of 1 / `WEIGHT_ONE`. The last block repeats the last pixel's weights.
    """
    side, resized, offset = (tf.cast(each, tf.int64) for each in (side, resized, offset))
    reach, block = 2 * tf.maximum(side, resized), min(_BLOCK, count)
    blocks = -(-count // block)
    numbers = tf.minimum(tf.range(blocks * block, dtype=tf.int64), count - 1)
    middles = tf.reshape((2 * (offset + numbers) + 1) * side, [blocks, block])
    first = (middles[:, 0] - reach - resized) // (2 * resized) + 1
    most = (2 * (block - 1) * side + 2 * reach + 2 * resized - 1) // (2 * resized)
    places = first[:, tf.newaxis, tf.newaxis] + tf.range(most)
    distances = tf.abs((2 * places + 1) * resized - middles[..., tf.newaxis])
    is_inside = (places >= 0) & (places < side)
    heights = tf.where(is_inside, tf.maximum(reach - distances, 0), 0)
    return tf.cast(tf.clip_by_value(places[:, 0], 0, side - 1), tf.int32), _share_out(heights)


def _share_out(heights: tf.Tensor) -> tf.Tensor:
    """Weights in the ratio of int64 [..., places]: float32, rounded, whose sum is exactly one."""
    total = tf.reduce_sum(heights, axis=-1, keepdims=True)
    sums = (2 * WEIGHT_ONE * tf.cumsum(heights, axis=-1) + total) // (2 * total)
    shares = sums - tf.pad(sums, [[0, 0], [0, 0], [1, 0]])[..., :-1]
    return tf.cast(shares, tf.float32) * (1 / WEIGHT_ONE)


def _average_columns(
    image: tf.Tensor,
    left: tf.Tensor,
    breadth: tf.Tensor,
    places: tf.Tensor,
    weights: tf.Tensor,
    count: int,
) -> tf.Tensor:
    """Weighted means along the height, rounded, of some columns, strip by strip.

    Args:
      image: uint8 [height, width, channels].
      left: int32 scalar, the first column.
      breadth: int32 scalar, how many columns.
      places: see `_find_taps`.
      weights: see `_find_taps`.
      count: how many means each column gets.

    Returns:
      float32 [breadth, count * channels]: turned, so that the width is the first axis.
    """
    channels = image.shape[-1]
    step = tf.maximum(_STRIP_BYTES // (4 * channels * tf.size(places)), 1)
    strips = (breadth + step - 1) // step
    found = tf.TensorArray(
        tf.float32, strips, infer_shape=False, element_shape=[None, count * channels]
    )

    def average_strip(number: tf.Tensor, found: tf.TensorArray) -> tuple:
        start = left + number * step
        strip = image[:, start : tf.minimum(start + step, left + breadth)]
        lines = tf.reshape(strip, [tf.shape(image)[0], -1])
        means = tf.round(_average(lines, places, weights, count))
        turned = tf.transpose(tf.reshape(means, [count, -1, channels]), [1, 0, 2])
        return number + 1, found.write(number, tf.reshape(turned, [-1, count * channels]))

    _, found = tf.while_loop(
        lambda number, _: number < strips, average_strip, (0, found), parallel_iterations=1
    )
    return found.concat()


def _average(lines: tf.Tensor, places: tf.Tensor, weights: tf.Tensor, count: int) -> tf.Tensor:
    """Weighted means of lines: uint8 or float32 [length, values] → float32 [count, values]."""
    averages = tf.matmul(weights, tf.cast(tf.gather(lines, places), tf.float32))
    return tf.reshape(averages, [-1, tf.shape(lines)[1]])[:count]


def resample_floats(
    image: tf.Tensor, size: tf.Tensor, offset: tf.Tensor, window: tuple[int, int]
) -> tf.Tensor:
    """As `resample_window`, of floats, which TensorFlow's own antialiased resize does not round.

    In a third of the time of doing both with TensorFlow's own ops: pixels that the window does not
    need are left out, and each direction is resampled with all channels of all lines side by side,
    for which `ScaleAndTranslate` has a faster kernel than for three channels.

    Args:
      image: float32 [height, width, channels], the channels known.
      size: int32 [2], height and width of the resized image, in pixels.
      offset: int32 [2], top and left of the window in it.
      window: height and width of the window; it must lie inside.

    Returns:
      float32 [*window, channels].
    """
    rows, columns = window
    channels = image.shape[-1]
    scale = tf.cast(size, tf.float32) / tf.cast(tf.shape(image)[:2], tf.float32)
    top, height = _source_span(offset[0], rows, scale[0], tf.shape(image)[0])
    left, width = _source_span(offset[1], columns, scale[1], tf.shape(image)[1])
    shift = tf.cast(tf.stack([top, left]), tf.float32) * scale - tf.cast(offset, tf.float32)
    needed = image[top : top + height, left : left + width]
    lines = tf.reshape(needed, tf.stack([height, width * channels]))
    lines = _resample_lines(lines, rows, scale[0], shift[0])
    turned = tf.transpose(tf.reshape(lines, [rows, width, channels]), [1, 0, 2])
    lines = tf.reshape(turned, tf.stack([width, rows * channels]))
    lines = _resample_lines(lines, columns, scale[1], shift[1])
    return tf.transpose(tf.reshape(lines, [columns, rows, channels]), [1, 0, 2])


def _source_span(
    offset: tf.Tensor, count: int, scale: tf.Tensor, side: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The first pixel that a span of the resized side is made of, and how many there are.

    The triangle over which pixels are averaged reaches one pixel to either side, of the resized
    image if that is the smaller one; a pixel more is taken against rounding.
    """
    reach = 1 / tf.minimum(scale, 1)
    start = tf.cast(offset, tf.float32) / scale - reach
    end = tf.cast(offset + count, tf.float32) / scale + reach
    first = tf.maximum(tf.cast(tf.floor(start), tf.int32) - 1, 0)
    return first, tf.minimum(tf.cast(tf.math.ceil(end), tf.int32) + 1, side) - first


def _resample_lines(lines: tf.Tensor, count: int, scale: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Resamples along the first axis.

    Args:
      lines: float32 [length, values].
      count: how many lines the result has.
      scale: float32 scalar, of their distances.
      shift: float32 scalar: where the first line comes to lie, in lines of the result.

    Returns:
      float32 [count, values].
    """
    return tf.raw_ops.ScaleAndTranslate(
        images=lines[tf.newaxis, :, tf.newaxis],
        size=[count, 1],
        scale=tf.stack([scale, 1.0]),
        translation=tf.stack([shift, 0.0]),
        kernel_type="triangle",
        antialias=True,
    )[0, :, 0]
