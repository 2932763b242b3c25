"""A batch of files to views, where a damaged file costs its own row and not the request."""

from collections.abc import Callable

import tensorflow as tf

from image_pipeline.components.served.kinds import explain_unserved

# Files decoded at a time; as many as `tf.map_fn` runs.
_AT_ONCE = 10


def take_views(
    decode_view: Callable[[tf.Tensor], tf.Tensor], files: tf.Tensor, size: tuple[int, int, int]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Decodes files, each on its own.

    No operation of TensorFlow's catches an error but tf.data's `ignore_errors`, so the batch goes
    through a data set inside the graph. It travels in a SavedModel, and runs wherever TensorFlow
    does, TensorFlow Serving among them.

    Args:
      decode_view: string scalar → uint8 [*size]; it may fail.
      files: string [batch].
      size: height, width and channels.

    Returns:
      The views, uint8 [batch, *size], black where decoding failed; and why each one failed, string
      [batch]: empty where it did not, else as `kinds.explain_unserved` says.
    """
    count = tf.shape(files, out_type=tf.int64)[0]
    found = (
        tf.data.Dataset.from_tensor_slices(files)
        .enumerate()
        .map(lambda row, file: (row, decode_view(file)), num_parallel_calls=_AT_ONCE)
        .ignore_errors()
    )
    # One more row, which is cut off again: a data set without an element has no batch.
    last = tf.data.Dataset.from_tensors((count, tf.zeros(size, tf.uint8)))
    rows, views = found.concatenate(last).batch(count + 1).get_single_element()
    rows = rows[:, tf.newaxis]
    images = tf.scatter_nd(rows, views, tf.stack([count + 1, *size]))[:count]
    is_found = tf.scatter_nd(rows, tf.ones_like(rows[:, 0]), tf.stack([count + 1]))[:count] > 0
    errors = tf.where(is_found, tf.constant(b""), explain_unserved(files))
    return tf.ensure_shape(images, [None, *size]), errors
