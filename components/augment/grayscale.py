"""The step grayscale."""

import tensorflow as tf

from image_pipeline.components.augment import draws, levels
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.options import Grayscale


def grayscale(batch: Batch, keys: tf.Tensor, options: Grayscale) -> Batch:
    """Turns some images gray, with three equal channels.

    torchvision's `RandomGrayscale`, with exactly the gray of Pillow's `convert("L")` (torchvision's
    own differs by up to one level). An image with one channel stays as it is.

    Args:
      batch: see `Batch`; only its images change.
      keys: uint64 [batch].
      options: its probability.
    """
    chosen = levels.choose(draws.uniform(keys, 1)[:, 0], options.probability)
    gray = tf.cast(levels.to_gray(tf.cast(batch.images, tf.float32)), tf.uint8)
    return batch._replace(images=tf.where(chosen, gray, batch.images))
