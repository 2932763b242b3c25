"""Operations that give each level of a channel a new one: those of Pillow's ImageOps."""

import math

import tensorflow as tf

_LEVELS = 256


def posterize(images: tf.Tensor, bits: int) -> tf.Tensor:
    """Keeps the uppermost bits of every level.

    Args:
      images: uint8 [batch, height, width, channels].
      bits: how many, 0 to 8.
    """
    return tf.bitwise.bitwise_and(images, tf.constant(_LEVELS - 2 ** (8 - bits), tf.uint8))


def solarize(images: tf.Tensor, threshold: float) -> tf.Tensor:
    """Inverts all levels that are not under a threshold.

    Args:
      images: uint8 [batch, height, width, channels].
      threshold: 0 to 255.
    """
    return tf.where(images >= math.ceil(threshold), 255 - images, images)


def autocontrast(images: tf.Tensor) -> tf.Tensor:
    """Spreads each channel's levels over 0 to 255, rounding down; one level alone stays.

    Where a new level is a whole number before it is rounded, Pillow now and then has the one below:
    a rounding error that is not copied here.

    Args:
      images: uint8 [batch, height, width, channels].
    """
    levels = tf.cast(images, tf.float32)
    least = tf.reduce_min(levels, axis=(1, 2), keepdims=True)
    spread = tf.reduce_max(levels, axis=(1, 2), keepdims=True) - least
    # Half a unit more and the quotient never lies at a whole number: its last bit does not matter.
    quotients = (2 * 255 * (levels - least) + 1) / tf.maximum(2 * spread, 1)
    return tf.where(spread > 0, tf.cast(tf.floor(quotients), tf.uint8), images)


def equalize(images: tf.Tensor) -> tf.Tensor:
    """Gives each channel levels that are about equally frequent, in their old order.

    Args:
      images: uint8 [batch, height, width, channels].
    """
    channels = tf.shape(images)[0] * images.shape[3]
    firsts = tf.reshape(tf.range(channels) * _LEVELS, [-1, 1, 1, images.shape[3]])
    places = tf.cast(images, tf.int32) + firsts
    flat = tf.reshape(places, [-1, 1])
    counts = tf.scatter_nd(flat, tf.ones_like(flat[:, 0]), [channels * _LEVELS])
    table = _equalizing_table(tf.reshape(counts, [-1, _LEVELS]))
    return tf.gather(tf.reshape(table, [-1]), places)


def _equalizing_table(counts: tf.Tensor) -> tf.Tensor:
    """The new levels by Pillow's formula.

    Args:
      counts: int32 [channels, 256], how many pixels have each level.

    Returns:
      uint8 [channels, 256].
    """
    before = tf.cumsum(counts, axis=1, exclusive=True)
    pixels = tf.reduce_sum(counts, axis=1, keepdims=True)
    # All pixels but those of the greatest level there is: the pixels before a level, while they
    # are not yet all of them.
    but_last = tf.reduce_max(tf.where(before < pixels, before, 0), axis=1, keepdims=True)
    step = but_last // 255
    levels = tf.minimum((step // 2 + before) // tf.maximum(step, 1), 255)
    return tf.cast(tf.where(step > 0, levels, tf.range(_LEVELS)), tf.uint8)
