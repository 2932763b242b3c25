"""What a model is to answer for a batch: classes, tags, values, masks or boxes."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.augment import mixed_labels
from image_pipeline.components.augment.batch import Batch, Moved
from image_pipeline.components.augment.options import Mixup
from image_pipeline.components.dataset.record import LABEL_COLUMNS
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import boxes
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions

Number = Callable[[Mapping[str, tf.Tensor]], tf.Tensor]


def check_mixing(feeding: FeedingOptions, moved: Moved | None, has_graph: bool) -> None:
    """Checks that the steps which mix labels can mix these.

    Raises:
      UserError: if they are masks or boxes, or names that no graph numbers.
    """
    if moved == "masks" and any(isinstance(step, Mixup) for step in feeding.augment):
        raise UserError(
            "mixup blends labels, which class ids of pixels cannot be; leave it out of "
            "feeding.augment, or take cutmix, which cuts masks as it cuts images."
        )
    if moved == "boxes" and feeding.mixes_labels:
        raise UserError(
            "mixup and cutmix mix labels, which boxes cannot be; leave them out of feeding.augment."
        )
    if moved is None and not has_graph and feeding.mixes_labels:
        raise UserError(
            "mixup and cutmix need the transform graph, which numbers the classes; give "
            "transform_graph_dir, or leave them out of feeding.augment."
        )


def make_labels(
    batch: Mapping[str, tf.Tensor],
    views: Batch,
    graph: TransformGraph | None,
    feeding: FeedingOptions,
    number: Number | None = None,
) -> Any:
    """Makes the labels of a batch.

    Args:
      batch: as `ImageBatches.read` gives it.
      views: what the random steps have made of it.
      graph: the transform graph; None to leave labels as records have them.
      feeding: which steps were taken, and which boxes count.
      number: `TransformGraph.number_labels`; None to ask the whole graph.

    Returns:
      See `input_fn`.
    """
    if views.masks is not None:
        return tf.cast(tf.squeeze(views.masks, -1), tf.int32)
    if views.boxes is not None:
        labels = batch[boxes.BOX_LABELS]
        return boxes.finish_boxes(views.boxes, views.visible, labels, feeding.min_visible)
    if graph is None:
        return _untransformed(batch)
    count = batch[contract.LABEL_INPUT].shape[0]  # None where batches differ in size
    # Of the whole graph only the label is used, so TensorFlow prunes its pixels away.
    labels = graph(batch)[1] if number is None else number(batch)
    labels = tf.ensure_shape(labels, [count, *labels.shape[1:]])
    return _mix(labels, views.own_share, graph) if feeding.mixes_labels else labels


def _mix(labels: tf.Tensor, own_share: tf.Tensor | None, graph: TransformGraph) -> tf.Tensor:
    own_share = tf.ones(tf.shape(labels)[:1], tf.float32) if own_share is None else own_share
    if graph.label is not None:
        return mixed_labels.mix_rows(labels, own_share)
    return mixed_labels.mix_labels(labels, own_share, len(graph.class_names))


def _untransformed(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """What records say: tags (a line each), values or names of classes."""
    said = (batch[column.key] for column in LABEL_COLUMNS.values() if column.key in batch)
    return next(said, batch[contract.LABEL_INPUT])
