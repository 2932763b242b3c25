"""Which records a partial analysis takes: a pure function of the record's id."""

import tensorflow as tf

_BUCKETS = 10**9  # so `analyze_fraction` counts in billionths


def keep_records(ids: tf.Tensor, fraction: float) -> tf.Tensor:
    """Chooses about a fraction of the records, the same ones for any sharding and batch size.

    The id's FarmHash decides (`tf.strings.to_hash_bucket_fast`, stable across TensorFlow's
    versions). What a smaller fraction takes, a greater one takes too.

    Args:
      ids: string [...], record ids.
      fraction: greater than 0, at most 1.

    Returns:
      bool [...].
    """
    return tf.strings.to_hash_bucket_fast(ids, _BUCKETS) < round(fraction * _BUCKETS)
