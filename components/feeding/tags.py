"""Several labels an image: joined names from records, multi-hot rows for the model."""

import tensorflow as tf

SEPARATOR = "\n"  # no tag has several lines


def join_tags(tags: tf.RaggedTensor) -> tf.Tensor:
    """Puts each record's tags into one string: string [batch], a tag a line.

    One string a record is dense, has a shape that is known, and is cheap to copy. A list of any
    length would travel as a ragged or sparse tensor, which replicas serialize and parse again.
    """
    return tf.strings.reduce_join(tags, axis=1, separator=SEPARATOR)


def split_tags(joined: tf.Tensor) -> tf.RaggedTensor:
    """The tags of each record, string [batch, tags of a record]: the inverse of `join_tags`."""
    tags = tf.strings.split(joined, SEPARATOR)
    return tf.ragged.boolean_mask(tags, tags != "")


def multi_hot(ids: tf.RaggedTensor, count: int) -> tf.Tensor:
    """Marks each record's tags.

    Args:
      ids: int64 [batch, tags of a record]; -1, an unknown tag, marks none.
      count: how many tags there are in all.

    Returns:
      float32 [batch, count] of 0 and 1.
    """
    rows, known = ids.value_rowids(), ids.flat_values >= 0
    places = tf.boolean_mask(tf.stack([rows, ids.flat_values], axis=1), known)
    shape = tf.stack([ids.nrows(), tf.constant(count, tf.int64)])
    marks = tf.scatter_nd(places, tf.ones(tf.shape(places)[0]), shape)
    # A foreign record may have a tag twice.
    return tf.ensure_shape(tf.minimum(marks, 1), [None, count])
