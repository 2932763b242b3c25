"""A batch of files to views, where a damaged file costs its own row and not the request."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from image_pipeline.components.served.kinds import explain_unserved

# Files decoded at a time; as many as `tf.map_fn` runs.
_AT_ONCE = 10


def take_views(
    decode_view: Callable[[tf.Tensor], Any],
    files: tf.Tensor,
    blank: Any,
    explain: Callable[[tf.Tensor], tf.Tensor] = explain_unserved,
) -> tuple[Any, tf.Tensor]:
    """Decodes files, each on its own.

    No operation of TensorFlow's catches an error but tf.data's `ignore_errors`, so the batch goes
    through a data set inside the graph. It travels in a SavedModel, and runs wherever TensorFlow
    does, TensorFlow Serving among them.

    Args:
      decode_view: string scalar → the view, or a tuple of the view and what else is known of it;
        it may fail.
      files: string [batch].
      blank: zeros of the shapes and types that it gives.
      explain: why files failed, string [batch] to string [batch].

    Returns:
      What it gives, for all files, zeros where it failed; and why it did, string [batch]: empty
      where it did not, else as `explain` says.
    """
    count = tf.shape(files, out_type=tf.int64)[0]
    found = (
        tf.data.Dataset.from_tensor_slices(files)
        .enumerate()
        .map(lambda row, file: (row, decode_view(file)), num_parallel_calls=_AT_ONCE)
        .ignore_errors()
    )
    # One more row, which is cut off again: a data set without an element has no batch.
    last = tf.data.Dataset.from_tensors((count, blank))
    rows, views = found.concatenate(last).batch(count + 1).get_single_element()
    rows = rows[:, tf.newaxis]

    def spread(values: tf.Tensor, zeros: tf.Tensor) -> tf.Tensor:
        of_all = tf.scatter_nd(rows, values, tf.stack([count + 1, *zeros.shape]))[:count]
        return tf.ensure_shape(of_all, [None, *zeros.shape])

    is_found = tf.scatter_nd(rows, tf.ones_like(rows[:, 0]), tf.stack([count + 1]))[:count] > 0
    errors = tf.where(is_found, tf.constant(b""), explain(files))
    return tf.nest.map_structure(spread, views, blank), errors
