"""Boxes of a batch: from records, by the view that is made of each image, to labels."""

from collections.abc import Mapping

import tensorflow as tf

from image_pipeline.components.augment.batch import clip_boxes, shares_inside
from image_pipeline.components.labels.box_arrays import NO_BOX
from image_pipeline.components.labels.kind import BOX_LABELS, COLUMNS, PLACES, VISIBLE
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions

LABELS = "labels"
COUNT = "count"


def place_boxes(
    parsed: Mapping[str, tf.Tensor],
    windows: tf.Tensor | None,
    view: ViewOptions,
    most: int | None,
) -> dict[str, tf.Tensor]:
    """Moves the boxes of records as the views of their images are cut out.

    Args:
      parsed: a batch as `parse.parse_batch` gives it, with `COLUMNS`, and "height" and "width" of
        the stored images, int [batch].
      windows: int32 [batch, 4], each image's crop; None for the deterministic view.
      view: the model's input size.
      most: how many boxes to pad to; None for the most of this batch, at least 1.

    Returns:
      `PLACES`, clipped at the view's sides, in shares of it, all zeros where there is none;
      `BOX_LABELS`, from 0 on; and `VISIBLE`, which share of each box is inside the view. Crowds
      are left out.
    """
    sides = [parsed[column.key] for column in COLUMNS[:4]]
    labels, crowds = (tf.cast(parsed[column.key], tf.int32) for column in COLUMNS[4:])
    boxes = tf.stack(sides, axis=-1)
    is_box = (labels > 0) & (crowds == 0)
    sizes = tf.stack([parsed["height"], parsed["width"]], axis=1)
    moved = _move(boxes, sizes, windows, view)
    moved = tf.where(is_box[..., None], moved, tf.zeros_like(moved))
    placed = {
        PLACES: clip_boxes(moved),
        BOX_LABELS: tf.where(is_box, labels - 1, NO_BOX),
        VISIBLE: shares_inside(moved),
    }
    return {key: _pad(values, most, key) for key, values in placed.items()}


def finish_boxes(
    boxes: tf.Tensor, visible: tf.Tensor, labels: tf.Tensor, min_visible: float
) -> dict[str, tf.Tensor]:
    """What the model gets: boxes that are visible enough come first, the rest is padding.

    Args:
      boxes: float32 [batch, boxes, 4].
      visible: float32 [batch, boxes], which share of each box is left.
      labels: int32 [batch, boxes], `NO_BOX` for none.
      min_visible: the least share that counts.

    Returns:
      `PLACES` float32 [batch, boxes, 4], `LABELS` int32 [batch, boxes], `COUNT` int32 [batch].
    """
    has_area = tf.reduce_any(boxes > 0, axis=-1)
    is_kept = (labels != NO_BOX) & has_area & (visible >= min_visible)
    order = tf.argsort(tf.cast(~is_kept, tf.int32), axis=1, stable=True)
    labels = tf.where(is_kept, labels, NO_BOX)
    boxes = tf.where(is_kept[..., None], boxes, tf.zeros_like(boxes))
    return {
        PLACES: tf.gather(boxes, order, batch_dims=1),
        LABELS: tf.gather(labels, order, batch_dims=1),
        COUNT: tf.reduce_sum(tf.cast(is_kept, tf.int32), axis=1),
    }


def _move(
    boxes: tf.Tensor, sizes: tf.Tensor, windows: tf.Tensor | None, view: ViewOptions
) -> tf.Tensor:
    """Boxes as shares of each image's window, not clipped: float64 [batch, boxes, 4]."""
    if windows is None:
        corners, lengths = views.place_views(sizes, view)
    else:
        sides = tf.cast(sizes, tf.float64)
        corners = tf.cast(windows[:, :2], tf.float64) / sides
        lengths = tf.cast(windows[:, 2:], tf.float64) / sides
    corners, lengths = tf.tile(corners, [1, 2])[:, None], tf.tile(lengths, [1, 2])[:, None]
    return (tf.cast(boxes, tf.float64) - corners) / lengths


def _pad(values: tf.Tensor, most: int | None, key: str) -> tf.Tensor:
    missing = (tf.maximum(tf.shape(values)[1], 1) if most is None else most) - tf.shape(values)[1]
    further = [[0, 0]] * (len(values.shape) - 2)
    padding = NO_BOX if key == BOX_LABELS else 0
    padded = tf.pad(values, [[0, 0], [0, missing], *further], constant_values=padding)
    return tf.ensure_shape(padded, [None, most, *values.shape[2:]])
