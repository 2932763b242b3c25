"""Reads numbers from a file's bytes, in TensorFlow ops; zeros beyond the end of the file."""

import tensorflow as tf


def read_bytes(file: tf.Tensor, offset: tf.Tensor | int, count: int) -> tf.Tensor:
    """Some bytes of a file.

    Args:
      file: string scalar.
      offset: int64 scalar; it may lie outside the file.
      count: how many bytes.

    Returns:
      int64 [count], 0 to 255.
    """
    found = tf.strings.substr(file, _clip(file, offset), count)
    filled = tf.strings.substr(tf.strings.join([found, b"\0" * count]), 0, count)
    return tf.reshape(tf.cast(tf.io.decode_raw(filled, tf.uint8), tf.int64), [count])


def read_text(file: tf.Tensor, offset: tf.Tensor | int, count: tf.Tensor | int) -> tf.Tensor:
    """Some bytes of a file as a string scalar, which is shorter where the file ends."""
    return tf.strings.substr(file, _clip(file, offset), tf.maximum(_int64(count), 0))


def join_number(parts: tf.Tensor, is_little: tf.Tensor | bool) -> tf.Tensor:
    """The numbers that bytes stand for.

    Args:
      parts: int64 [..., n], 0 to 255.
      is_little: whether the least byte comes first: bool, or a bool scalar.

    Returns:
      int64 [...], unsigned.
    """
    values = [256**place for place in range(parts.shape[-1])]
    places = tf.where(is_little, tf.constant(values, tf.int64), values[::-1])
    return tf.reduce_sum(parts * places, axis=-1)


def count_bytes(file: tf.Tensor) -> tf.Tensor:
    """The file's size: int64 scalar."""
    return _int64(tf.strings.length(file))


def _clip(file: tf.Tensor, offset: tf.Tensor | int) -> tf.Tensor:
    return tf.clip_by_value(_int64(offset), 0, count_bytes(file))


def _int64(value: tf.Tensor | int) -> tf.Tensor:
    return tf.cast(value, tf.int64)
