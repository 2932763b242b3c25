"""As `resample`, of floats: by TensorFlow's own antialiased resize, which rounds nothing."""

import tensorflow as tf


def resample_floats(
    image: tf.Tensor, size: tf.Tensor, offset: tf.Tensor, window: tuple[int, int]
) -> tf.Tensor:
    """Resizes an image, as `tf.image.resize` does with `antialias=True`, and cuts out a window.

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
