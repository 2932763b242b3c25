"""How much a record counts in the loss: by its class's weight, and not at all without a class.

Records of unknown class, whose id is -1, may be in any batch: a class that only the eval split has,
or no class at all. What they must not do is count as wrong, pull the mean of a loss towards 0, or
reach a loss that knows no id -1.
"""

import threading
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Mode, Passes
from image_pipeline.components.feeding.records import open_records
from image_pipeline.components.feeding.selection import select_labels
from image_pipeline.components.transform.statistics import read_statistics


def count_unknown(
    files: Sequence[str],
    feeding: FeedingOptions,
    transform_graph_dir: str,
    mode: Mode,
) -> int | None:
    """Counts the records of a split that the label vocabulary has no class for.

    Returns:
      The number of these records, or None if only reading them would tell: if ids depend on further
      columns.
    """
    records = open_records(files, None, feeding, Passes(mode=mode))
    transform = TransformGraph(transform_graph_dir)
    if transform.columns:
        return None
    labels = select_labels(records.index, feeding, mode == "train")
    codes, counts = np.unique(labels, return_counts=True)
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


def read_class_weights(transform_graph_dir: str, class_names: list[str]) -> np.ndarray:
    """Reads the weights that the analysis left in the graph: records / (classes · class's records).

    Returns:
      float32 [classes], in the order of the ids. Over the analysed records their mean is 1.

    Raises:
      UserError: if the graph has none for these classes.
    """
    found = read_statistics(transform_graph_dir)
    names = [name.decode() for name in found.get("class_names", np.array([], object)).tolist()]
    if names != class_names:
        raise UserError(
            "training.class_weights=balanced needs the weights of the vocabulary's "
            f"{len(class_names)} classes, and the transform graph has those of {len(names)}; "
            "number labels in the preprocessing_fn by "
            "image_pipeline.components.transform.labels.label_ids, or set "
            "training.class_weights=none."
        )
    return found["class_weights"].astype(np.float32)


def check_tag_loss(model: keras.Model, tags: int, name: str) -> None:
    """Makes sure that a model's loss can be weighed tag by tag.

    A loss that is the mean over the tags, [batch], would be spread over the tags' weights wherever
    a batch has as many records as there are tags, and fail elsewhere: so they differ here.

    Raises:
      UserError: if it cannot.
    """
    labels = tf.zeros([tags + 1, tags])
    try:
        model.compute_loss(None, labels, labels + 0.5, tf.ones_like(labels))
    except (ValueError, tf.errors.OpError) as error:
        raise UserError(
            "training.class_weights=balanced weighs each tag, so the loss of "
            f"training.model={name} must be [batch, tags]; compile it with "
            "image_pipeline.components.models.model.binary_cross_entropy."
        ) from error


def weigh_records(
    batches: tf.data.Dataset, class_weights: np.ndarray, of_tags: bool = False
) -> tf.data.Dataset:
    """Gives every record its class's weight; records of unknown class get 0.

    Args:
      batches: pairs of images and int64 [batch], class ids, -1 if unknown; or float32 [batch,
        classes], shares; or float32 [batch, tags].
      class_weights: float32 [classes], or [tags].
      of_tags: whether they are of tags.

    Returns:
      Triples of images, labels and float32 [batch], by which Keras multiplies each record's
      loss before it takes the batch's mean. Of tags, float32 [batch, tags]: those that a record has
      get their weight, the others 1.
    """
    table = tf.constant(class_weights)

    def weigh(images: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        if of_tags:
            return images, ids, 1 + ids * (table - 1)
        if ids.dtype.is_floating:
            return images, ids, tf.linalg.matvec(ids, table)
        weights = tf.gather(table, tf.maximum(ids, 0))
        return images, ids, tf.where(ids < 0, tf.zeros_like(weights), weights)

    # Not in parallel: it copies nothing, and would hold a finished batch per core.
    return batches.map(tf.autograph.experimental.do_not_convert(weigh))
