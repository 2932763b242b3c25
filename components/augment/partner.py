"""Which images are mixed with each other."""

import tensorflow as tf


def partner_of(values: tf.Tensor) -> tf.Tensor:
    """Gives each element its partner's value: 0 and 1 are partners, 2 and 3, and so on.

    So neighbours mix, and a batch that is cut into workers' shares at even positions mixes as if it
    were not cut. The last of an odd batch is its own partner.

    Args:
      values: [batch, ...], any type.

    Returns:
      The same shape and type.
    """
    return tf.gather(values, _partners(values))


def has_partner(values: tf.Tensor) -> tf.Tensor:
    """Whether each element has a partner besides itself: bool [batch]."""
    return _partners(values) != tf.range(tf.shape(values)[0])


def _partners(values: tf.Tensor) -> tf.Tensor:
    """The partners' places: int32 [batch]."""
    count = tf.shape(values)[0]
    places = tf.range(count)
    partners = tf.bitwise.bitwise_xor(places, 1)
    return tf.where(partners < count, partners, places)
