"""Class names to class ids, with how often each class occurs."""

from collections.abc import Mapping

import tensorflow as tf
import tensorflow_transform as tft

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding.tags import split_tags
from image_pipeline.components.transform import statistics
from image_pipeline.components.transform.name_vocabulary import name_vocabulary, order_counts

# Names that are left out of a vocabulary, whose file has a name a line.
_NOT_IN_VOCABULARY = r"^$|\C*[\n\r]\C*"


def label_ids(labels: tf.Tensor) -> tf.Tensor:
    """Numbers classes in the order of `ingest.classes`, then of names; -1 for others.

    In the same pass it leaves four named statistics in the graph, each [classes] in the order of
    the ids: `class_names`, `class_counts` (int64, records), `class_priors` (a class's share of the
    records) and `class_weights`, which are records / (classes · the class's records), as
    scikit-learn's `class_weight="balanced"` is: every class then weighs the same in a loss. One
    that only `ingest.classes` names has 0 of each.

    Args:
      labels: string [B].

    Returns:
      int64 [B].
    """
    ids = _number_names(labels)
    names, counts = count_classes(labels)
    shares = tf.cast(counts, tf.float64)
    records, classes = tf.reduce_sum(shares), tf.cast(tf.size(counts), tf.float64)
    marked = {
        "class_names": names,
        "class_counts": counts,
        "class_priors": shares / records,
        "class_weights": tf.math.divide_no_nan(records, classes * shares),
    }
    return statistics.keep_statistics(
        ids, [statistics.name_statistic(name, value) for name, value in marked.items()]
    )


def make_labels(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor | tf.RaggedTensor:
    """The label output of a data set's kind: ids of classes, ids of tags, or values.

    Args:
      inputs: of the `preprocessing_fn`.
    """
    if record.TAGS in inputs:
        return tag_ids(inputs[record.TAGS])
    if record.VALUE in inputs:
        return keep_values(inputs[record.VALUE])
    return label_ids(inputs[contract.LABEL_INPUT])


def tag_ids(joined: tf.Tensor) -> tf.RaggedTensor:
    """Numbers tags as `label_ids` does classes, with the same statistics in the graph.

    Of these, `class_counts` are the records that have a tag, `class_priors` their share, and
    `class_weights` the records without it for each one with it: so weighted, those with and those
    without a tag count the same in a loss.

    Args:
      joined: string [B], each record's tags, one a line.

    Returns:
      int64 [B, tags of a record]; -1 for a tag that was not analysed.
    """
    tags = split_tags(joined)
    ids = _number_names(tags.flat_values)
    names, counts = count_classes(tags.flat_values)
    with_tag = tf.cast(counts, tf.float64)
    records = tf.cast(tft.sum(tf.ones_like(joined, tf.int64)), tf.float64)
    marked = {
        "class_names": names,
        "class_counts": counts,
        "class_priors": with_tag / records,
        "class_weights": tf.math.divide_no_nan(records - with_tag, with_tag),
    }
    kept = [statistics.name_statistic(name, value) for name, value in marked.items()]
    return tags.with_flat_values(statistics.keep_statistics(ids, kept))


def keep_values(values: tf.Tensor) -> tf.Tensor:
    """Values as they are (float32 [B]), with their mean and variance as statistics.

    A model that always answers the mean has the variance as its mean squared error.
    """
    marked = {"value_mean": tft.mean(values), "value_variance": tft.var(values)}
    kept = [statistics.name_statistic(name, value) for name, value in marked.items()]
    return statistics.keep_statistics(values, kept)


def count_classes(labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the analysed records of each class, in the order of the vocabulary.

    Args:
      labels: string [B].

    Returns:
      Names, string [classes], and counts, int64 [classes].
    """
    names, counts = tft.count_per_key(labels)  # In the order of names.
    kept = ~tf.strings.regex_full_match(names, _NOT_IN_VOCABULARY)
    return order_counts(tf.boolean_mask(names, kept), tf.boolean_mask(counts, kept))


def _number_names(names: tf.Tensor) -> tf.Tensor:
    """Each name's line in the vocabulary: int64 [n], of string [n]."""
    vocabulary = name_vocabulary(names, contract.LABEL_VOCABULARY)
    return tft.apply_vocabulary(names, vocabulary, default_value=-1)
