"""Random numbers that are a pure function of a record's key: no state, no order of calls.

A key is hashed by the finalizer of SplitMix64, as in `components.hashing`, here in TensorFlow's own
integer ops: they work on whole batches of keys at once, and inside XLA, where TensorFlow's
stateless generators take one seed a call.
"""

import numpy as np
import tensorflow as tf

# The finalizer's constants, see `components.hashing.mix64`.
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
# 2**64 divided by the golden ratio: SplitMix64's step from one number of a stream to the next.
_STEP = 0x9E3779B97F4A7C15
# A float32 has 24 bits of precision.
_FLOAT_BITS = 24


def fold(keys: tf.Tensor, numbers: tf.Tensor | int) -> tf.Tensor:
    """Makes new keys of keys and numbers; any other key or number gives an unrelated one.

    Args:
      keys: uint64 [batch].
      numbers: int64 [batch] or scalar.

    Returns:
      uint64 [batch].
    """
    mixed = _mix(tf.bitcast(tf.cast(numbers, tf.int64), tf.uint64) + tf.constant(_STEP, tf.uint64))
    return _mix(tf.bitwise.bitwise_xor(_mix(keys), mixed))


def uniform(keys: tf.Tensor, count: int) -> tf.Tensor:
    """Draws numbers from [0, 1), evenly spread.

    The same keys give the same numbers: to draw twice, fold the keys in between.

    Args:
      keys: uint64 [batch].
      count: numbers a key.

    Returns:
      float32 [batch, count], multiples of 2**-24.
    """
    # By NumPy: of a list, TensorFlow rounds numbers over 2**63 in graphs.
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP)
    bits = _mix(keys[:, None] + steps)
    # Through int32: XLA and TensorFlow turn it to float32 in one instruction, uint64 in many.
    top = tf.cast(tf.bitwise.right_shift(bits, tf.constant(64 - _FLOAT_BITS, tf.uint64)), tf.int32)
    return tf.cast(top, tf.float32) * tf.constant(2.0**-_FLOAT_BITS, tf.float32)


def _mix(bits: tf.Tensor) -> tf.Tensor:
    """Mixes all 64 bits, bijectively: uint64 of any shape."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        bits = _xor_shift(bits, shift) * tf.constant(factor, tf.uint64)
    return _xor_shift(bits, 31)


def _xor_shift(bits: tf.Tensor, shift: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint64)))
