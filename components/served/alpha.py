"""Transparent pixels on one background colour, and colour to gray, in whole numbers."""

import tensorflow as tf

# libpng's weights of red, green and blue (of 32768, cut off, not rounded), by which TensorFlow
# makes gray of a stored PNG in evaluation.
_LUMA = (9797, 19234, 3737)


def composite(pixels: tf.Tensor, background: tuple[int, int, int]) -> tf.Tensor:
    """Composites an image over a colour, with the same bits as ingest's `images.color.composite`.

    Args:
      pixels: uint8 [height, width, 4], RGB and opacity.
      background: RGB.

    Returns:
      uint8 [height, width, 3].
    """
    values = tf.cast(pixels, tf.int32)
    color, opacity = values[..., :3], values[..., 3:]
    behind = tf.constant(background, tf.int32) * (255 - opacity)
    return tf.cast((color * opacity + behind + 127) // 255, tf.uint8)


def fit_channels(color: tf.Tensor, channels: int) -> tf.Tensor:
    """RGB, uint8 [height, width, 3], to 3 channels or to gray."""
    if channels == 3:
        return color
    weighted = tf.cast(color, tf.int32) * tf.constant(_LUMA, tf.int32)
    return tf.cast(tf.reduce_sum(weighted, axis=-1, keepdims=True) // 32768, tf.uint8)
