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
    own = tf.one_hot(class_ids, num_classes)
    return own_share[:, None] * own + (1 - own_share[:, None]) * partner_of(own)
