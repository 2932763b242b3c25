"""What a model is to answer for a batch: classes, tags, values, masks or boxes."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.augment import mix
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels.kind import LabelKind

Number = Callable[[Mapping[str, tf.Tensor]], tf.Tensor]


def make_labels(
    batch: Mapping[str, tf.Tensor],
    views: Batch,
    graph: TransformGraph | None,
    feeding: FeedingOptions,
    kind: LabelKind,
    number: Number | None = None,
) -> Any:
    """Makes the labels of a batch.

    Args:
      batch: as `ImageBatches.read` gives it.
      views: what the random steps have made of it.
      graph: the transform graph; None to leave labels as records have them.
      feeding: which steps were taken, and which boxes count.
      kind: of the labels.
      number: `TransformGraph.number_labels`; None to ask the whole graph.

    Returns:
      See `input_fn`.
    """
    if graph is None or kind.moves:
        return kind.truth(batch, views, feeding.min_visible)
    count = batch[contract.LABEL_INPUT].shape[0]  # None where batches differ in size
    # Of the whole graph only the label is used, so TensorFlow prunes its pixels away.
    labels = graph(batch)[1] if number is None else number(batch)
    labels = tf.ensure_shape(labels, [count, *labels.shape[1:]])
    return _mix(labels, views.own_share, graph) if feeding.gives_shares else labels


def _mix(labels: tf.Tensor, own_share: tf.Tensor | None, graph: TransformGraph) -> tf.Tensor:
    own_share = tf.ones(tf.shape(labels)[:1], tf.float32) if own_share is None else own_share
    if graph.label is not None:
        return mix.mix_rows(labels, own_share)
    return mix.mix_labels(labels, own_share, len(graph.class_names))
