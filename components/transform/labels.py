"""Class names to class ids, with how often each class occurs."""

import tensorflow as tf
import tensorflow_transform as tft

from image_pipeline.components import contract
from image_pipeline.components.transform import statistics

# Names that tf.Transform leaves out of a vocabulary, whose file has a name a line.
_NOT_IN_VOCABULARY = r"^$|\C*[\n\r]\C*"


def label_ids(labels: tf.Tensor) -> tf.Tensor:
    """Numbers the classes, the most frequent first; -1 for a class that was not analysed.

    In the same pass it leaves four named statistics in the graph, each [classes] in the order of
    the ids: `class_names`, `class_counts` (int64, records), `class_priors` (a class's share of the
    records) and `class_weights`, which are records / (classes · the class's records), as
    scikit-learn's `class_weight="balanced"` is: every class then weighs the same in a loss.

    Args:
      labels: string [B].

    Returns:
      int64 [B].
    """
    ids = tft.compute_and_apply_vocabulary(
        labels, default_value=-1, vocab_filename=contract.LABEL_VOCABULARY
    )
    names, counts = count_classes(labels)
    shares = tf.cast(counts, tf.float64)
    records, classes = tf.reduce_sum(shares), tf.cast(tf.size(counts), tf.float64)
    marked = {
        "class_names": names,
        "class_counts": counts,
        "class_priors": shares / records,
        "class_weights": records / (classes * shares),
    }
    return statistics.keep_statistics(
        ids, [statistics.name_statistic(name, value) for name, value in marked.items()]
    )


def count_classes(labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the analysed records of each class, in the order of tf.Transform's vocabulary.

    That order is: descending count, then descending name. Counts come in ascending order of names,
    so they are reversed and sorted stably.

    Args:
      labels: string [B].

    Returns:
      Names, string [classes], and counts, int64 [classes].
    """
    names, counts = tft.count_per_key(labels)
    kept = ~tf.strings.regex_full_match(names, _NOT_IN_VOCABULARY)
    names, counts = tf.boolean_mask(names, kept)[::-1], tf.boolean_mask(counts, kept)[::-1]
    order = tf.argsort(counts, direction="DESCENDING", stable=True)
    return tf.gather(names, order), tf.gather(counts, order)
