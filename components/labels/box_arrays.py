"""What `box_batches` makes of boxes, on NumPy's arrays: the same bits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from image_pipeline.components.augment.array_steps import clip_boxes, shares_inside
from image_pipeline.components.labels.kind import BOX_LABELS, COLUMNS, PLACES, VISIBLE
from image_pipeline.components.views.options import ViewOptions, resized_size

NO_BOX = -1  # the label of what only pads the list, as Keras has it


def place_boxes(
    features: Sequence[dict[str, Any]],
    sizes: np.ndarray,
    windows: np.ndarray | None,
    view: ViewOptions,
    most: int,
) -> dict[str, np.ndarray]:
    """As `box_batches.place_boxes`, of NumPy's arrays.

    Args:
      features: of each record, `COLUMNS`, by their keys.
      sizes: int [batch, 2], heights and widths of the stored images, in pixels.
      windows: int32 [batch, 4], each image's crop; None for the deterministic view.
      view: the model's input size.
      most: how many boxes to pad to.
    """
    sides = np.zeros((len(features), most, 4), np.float32)
    labels = np.full((len(features), most), NO_BOX, np.int32)
    for number, own in enumerate(features):
        top, left, bottom, right, ids, crowds = (own[column.key] for column in COLUMNS)
        count = len(ids)
        sides[number, :count] = np.array([top, left, bottom, right], np.float32).T
        is_box = (np.array(ids) > 0) & (np.array(crowds) == 0)
        labels[number, :count] = np.where(is_box, np.array(ids) - 1, NO_BOX)
    if windows is None:
        target = np.array([view.height_px, view.width_px])
        resized = np.array([resized_size((int(h), int(w)), view) for h, w in sizes])
        corners, lengths = ((resized - target) // 2) / resized, target / resized
    else:
        corners, lengths = windows[:, :2] / sizes, windows[:, 2:] / sizes
    corners, lengths = np.tile(corners, [1, 2])[:, None], np.tile(lengths, [1, 2])[:, None]
    moved = (sides.astype(np.float64) - corners) / lengths
    moved[labels == NO_BOX] = 0
    return {PLACES: clip_boxes(moved), BOX_LABELS: labels, VISIBLE: shares_inside(moved)}


def finish_boxes(
    boxes: np.ndarray, visible: np.ndarray, labels: np.ndarray, min_visible: float
) -> dict[str, np.ndarray]:
    """What the model gets, see `box_batches.finish_boxes`."""
    is_kept = (labels != NO_BOX) & (boxes > 0).any(axis=-1) & (visible >= np.float32(min_visible))
    order = np.argsort(~is_kept, axis=1, kind="stable")
    boxes = np.where(is_kept[..., None], boxes, np.float32(0))
    labels = np.where(is_kept, labels, np.int32(NO_BOX))
    return {
        "boxes": np.take_along_axis(boxes, order[..., None], axis=1),
        "labels": np.take_along_axis(labels, order, axis=1),
        "count": is_kept.sum(axis=1, dtype=np.int32),
    }
