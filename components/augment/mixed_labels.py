"""Labels of mixed images."""

import tensorflow as tf

from image_pipeline.components.augment.partner import partner_of


def mix_labels(class_ids: tf.Tensor, own_share: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Gives each image its own class and its partner's, by their shares.

    Args:
      class_ids: int64 [batch]; -1, no class, adds nothing.
      own_share: float32 [batch], see `Batch`.
      num_classes: how many classes there are.

    Returns:
      float32 [batch, num_classes].
    """
    return mix_rows(tf.one_hot(class_ids, num_classes), own_share)


def mix_rows(own: tf.Tensor, own_share: tf.Tensor) -> tf.Tensor:
    """Mixes what each image has with what its partner has: float32 [batch, ...], as `own`."""
    share = tf.reshape(own_share, [-1] + [1] * (own.shape.rank - 1))
    return share * own + (1 - share) * partner_of(own)
