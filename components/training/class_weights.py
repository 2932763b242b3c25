"""How much a record counts in the loss, for classes of different sizes."""

import keras
import numpy as np
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.transform.statistics import read_statistics


def read_class_weights(transform_graph_dir: str, class_names: list[str]) -> np.ndarray:
    """Reads the weights that the analysis left in the graph: records / (classes · class's records).

    Args:
      transform_graph_dir: the folder that tf.Transform wrote.
      class_names: the vocabulary, in the order of the ids.

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
