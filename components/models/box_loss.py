"""What a detector that looks at a grid of points learns from boxes: targets of each point, losses.

The parts are known: centre sampling of FCOS (arXiv 1904.01355), the focal loss of RetinaNet (arXiv
1708.02002) and generalized intersection over union (arXiv 1902.09630). Unlike there, all sums are
divided by an image's own number of points: so the mean over images is the same on any number of
replicas, and an image without boxes counts as much as the others.
"""

from collections.abc import Mapping

import keras
import numpy as np

# A box is asked of the points whose distance to its centre is at most so many steps of the grid,
# in height and in width: of nine points, if it is alone. One is always near enough.
RADIUS = 1.5
# Of the focal loss, as in RetinaNet: the weight of what is there, and how little easy points count.
ALPHA, GAMMA = 0.25, 2.0
_LEAST = 1e-7


def make_points(height_px: int, width_px: int, stride_px: int) -> np.ndarray:
    """A grid's points, row by row, as shares of the image's sides: float32 [points, 2] (y, x)."""
    sides = [
        (np.arange(-(-side // stride_px)) + 0.5) * stride_px / side
        for side in (height_px, width_px)
    ]
    return np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)


def assign_boxes(
    labels: Mapping[str, keras.KerasTensor],
    points: np.ndarray,
    step: tuple[float, float],
    classes: int,
) -> dict[str, keras.KerasTensor]:
    """What each point is to answer: of the boxes within `RADIUS`, the one of the nearest centre.

    Args:
      labels: as `input_fn` gives them: `boxes` [batch, boxes, 4], `labels` [batch, boxes], `count`
        [batch].
      points: float32 [points, 2].
      step: from one to the next, as shares of height and width.
      classes: how many classes there are.

    Returns:
      `boxes` float32 [batch, points, 4], zeros where none is asked; `scores` float32 [batch,
      points, classes], 1 for the box's class.
    """
    ops = keras.ops
    boxes = ops.cast(labels["boxes"], "float32")
    centres = (boxes[..., :2] + boxes[..., 2:]) / 2
    away = ops.abs(centres[:, None] - points[:, None]) / np.array(step, np.float32)
    number = ops.arange(boxes.shape[1], dtype="int32")
    is_box = number < ops.cast(labels["count"], "int32")[:, None]
    distance = ops.where(is_box[:, None], ops.max(away, axis=-1), np.inf)  # [batch, points, boxes]
    nearest = ops.argmin(distance, axis=-1)
    is_asked = ops.cast(ops.min(distance, axis=-1) <= RADIUS, "float32")[..., None]
    ids = ops.take_along_axis(ops.cast(labels["labels"], "int32"), nearest, axis=1)
    return {
        "boxes": ops.take_along_axis(boxes, nearest[..., None], axis=1) * is_asked,
        "scores": ops.one_hot(ids, classes, dtype="float32") * is_asked,
    }


@keras.saving.register_keras_serializable("image_pipeline")
def focal_loss(asked: keras.KerasTensor, scores: keras.KerasTensor) -> keras.KerasTensor:
    """The focal loss of all points and classes of an image, for each point that a box is asked of.

    Args:
      asked: float32 [batch, points, classes], 0 or 1.
      scores: float32 of the same shape, probabilities.

    Returns:
      float32 [batch].
    """
    ops = keras.ops
    scores = ops.clip(scores, _LEAST, 1 - _LEAST)
    there = -ALPHA * (1 - scores) ** GAMMA * ops.log(scores)
    not_there = -(1 - ALPHA) * scores**GAMMA * ops.log(1 - scores)
    count = ops.sum(asked, axis=[1, 2])
    losses = asked * there + (1 - asked) * not_there
    return ops.sum(losses, axis=[1, 2]) / ops.maximum(count, 1)


@keras.saving.register_keras_serializable("image_pipeline")
def giou_loss(asked: keras.KerasTensor, boxes: keras.KerasTensor) -> keras.KerasTensor:
    """1 - GIoU, from 0 to 2, the mean of the points that a box is asked of; 0 if there is none.

    Shares of height and width do as well as pixels: all areas grow alike.

    Args:
      asked: float32 [batch, points, 4], zeros where no box is asked.
      boxes: float32 of the same shape.

    Returns:
      float32 [batch].
    """
    ops = keras.ops
    is_asked = ops.cast(ops.any(asked != 0, axis=-1), "float32")
    ends = ops.minimum(asked[..., 2:], boxes[..., 2:])
    both = _area(ops.maximum(asked[..., :2], boxes[..., :2]), ends)
    either = _area(asked[..., :2], asked[..., 2:]) + _area(boxes[..., :2], boxes[..., 2:]) - both
    starts = ops.minimum(asked[..., :2], boxes[..., :2])
    hull = _area(starts, ops.maximum(asked[..., 2:], boxes[..., 2:]))
    giou = both / ops.maximum(either, _LEAST) - (hull - either) / ops.maximum(hull, _LEAST)
    return ops.sum((1 - giou) * is_asked, axis=1) / ops.maximum(ops.sum(is_asked, axis=1), 1)


def _area(starts: keras.KerasTensor, ends: keras.KerasTensor) -> keras.KerasTensor:
    lengths = keras.ops.maximum(ends - starts, 0)
    return lengths[..., 0] * lengths[..., 1]
