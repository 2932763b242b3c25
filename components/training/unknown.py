"""Records of unknown class, whose id is -1: left out of the loss and of every metric.

They may be in any batch: a class that only the eval split has, or no class at all. What they must
not do is count as wrong, pull the mean of a loss towards 0, or reach a loss that knows no id -1.
"""

import threading
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Mode, Passes
from image_pipeline.components.feeding.records import open_records
from image_pipeline.components.feeding.selection import select
from image_pipeline.components.views.options import ViewOptions


def count_unknown(
    files: Sequence[str],
    feeding: FeedingOptions,
    transform_graph_dir: str,
    mode: Mode,
) -> int | None:
    """Counts the records of a split that the label vocabulary has no class for.

    Args:
      files: the split's files.
      feeding: which records are read.
      transform_graph_dir: the transform graph.
      mode: "train" or "eval".

    Returns:
      The number of these records, or None if only reading them would tell: without an index, or if
      ids depend on further columns.
    """
    records = open_records(files, ViewOptions(), feeding, Passes(mode=mode))
    transform = TransformGraph(transform_graph_dir)
    if records.index is None or transform.columns:
        return None
    codes, counts = np.unique(
        records.index.label[select(records.index, feeding, mode == "train")], return_counts=True
    )
    names = [records.index.classes[code] for code in codes.tolist()]
    return int(counts[np.array(transform.find_ids(names), np.int64) < 0].sum())


def leave_out_unknown(model: keras.Model) -> None:
    """Makes a model's training and evaluation leave out records without a class.

    Of the labels, predictions and weights of a batch only the rows with a class reach the loss and
    the metrics it was compiled with, so both are what they would be had the others not been there;
    and the epoch's loss weighs each batch's by the number of those rows. (Through weights of 0 it
    would not be so: losses divide by the batch's size, and metrics that are not among the
    `weighted_metrics` never see them.) A batch without any such row has a loss of 0, and no
    gradient.

    Args:
      model: compiled; changed. Not for a `train_step` of your own that calls neither
        `compute_loss` nor `compute_metrics`.
    """
    compute_loss, compute_metrics = model.compute_loss, model.compute_metrics
    tracker = getattr(model, "_loss_tracker", None)  # Keras's own, made by `compile`
    # How many rows of the current batch: with several devices, a thread for each traces its own.
    kept = threading.local()

    def known_loss(
        x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **training: Any
    ) -> Any:
        known = has_class(y)
        kept.rows = rows = tf.reduce_sum(tf.cast(known, tf.int32))
        labels, weights = _keep(known, y, sample_weight)
        images = tf.boolean_mask(x, known) if tf.is_tensor(x) else x
        loss = compute_loss(images, labels, _keep_outputs(known, y_pred), weights, **training)
        # Without rows, a user's own mean is NaN.
        return tf.where(rows > 0, loss, tf.zeros_like(loss))

    def known_metrics(x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        known = has_class(y)
        labels, weights = _keep(known, y, sample_weight)
        outputs = _keep_outputs(known, y_pred)
        return compute_metrics(x, labels, outputs, sample_weight=weights)

    model.compute_loss, model.compute_metrics = known_loss, known_metrics
    if tracker is None:
        return
    track = tracker.update_state

    def track_known(loss: Any, sample_weight: Any = None) -> Any:
        # Instead of the batch's size; a user's own `train_step` may not have computed the loss.
        return track(loss, sample_weight=vars(kept).pop("rows", sample_weight))

    tracker.update_state = track_known


def has_class(labels: tf.Tensor) -> tf.Tensor:
    """Which records have a class: bool [batch].

    Args:
      labels: int [batch] or [batch, 1], ids; or float [batch, classes], shares, of which records
        that are mixed of unknown ones only have none.
    """
    rows = tf.reshape(labels, [tf.shape(labels)[0], -1])
    if labels.dtype.is_floating and labels.shape.rank == 2 and labels.shape[1] != 1:
        return tf.reduce_any(rows > 0, axis=1)
    return tf.reduce_all(rows >= 0, axis=1)


def _keep_outputs(known: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The rows of records with a class, with the logits that they are a softmax of.

    From these Keras computes cross entropies, which of probabilities it would have to clip at 1e-7.
    It finds them in an attribute, or as the input of the operation.
    """
    kept = tf.boolean_mask(outputs, known)
    logits = getattr(outputs, "_keras_logits", None)
    if logits is None and not tf.executing_eagerly() and outputs.op.type in ("Softmax", "Sigmoid"):
        logits = outputs.op.inputs[0]
    if logits is not None:
        kept._keras_logits = tf.boolean_mask(logits, known)
    return kept


def _keep(known: tf.Tensor, *values: Any) -> list[Any]:
    return [None if value is None else tf.boolean_mask(value, known) for value in values]
