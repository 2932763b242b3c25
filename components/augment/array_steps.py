"""The random steps that only move whole pixels, on NumPy's arrays: the bits of TensorFlow's."""

from collections.abc import Sequence

import numpy as np

from image_pipeline.components.augment.keys import fold, uniform
from image_pipeline.components.augment.options import (
    FlipHorizontal,
    FlipVertical,
    PadAndCrop,
    RandomResizedCrop,
)
from image_pipeline.components.dataset.record import IGNORED
from image_pipeline.components.options import Options
from image_pipeline.components.rules import Rule

Arrays = dict[str, np.ndarray]

IMAGES, MASKS, BOXES, VISIBLE = "images", "masks", "boxes", "visible"
"""What moves, by the names of `augment.batch.Batch`'s fields; only the first is always there."""

_MOVING = (FlipHorizontal, FlipVertical, PadAndCrop, RandomResizedCrop)
# As in `augment.batch`: to which shares are rounded, and what rounding leaves of a box outside.
_STEPS, _LEAST_SIDE = 2.0**16, 2.0**-20


OF_ARRAYS = Rule(
    lambda steps, mode: (
        mode == "train"
        and (others := [step.op for step in steps if not isinstance(step, _MOVING)])
        and (", ".join(sorted(kind.model_fields["op"].default for kind in _MOVING)), others[0])
    ),
    "batches without TensorFlow take the steps {found[0]}, but feeding.augment has {found[1]}; "
    "take it behind, in your framework, with a generator for each of the batch's `key`, or read by "
    "input_fn.",
)
"""Whether a step does more than to move whole pixels."""


def take_steps(
    batch: Arrays, keys: np.ndarray, mirrored: np.ndarray, steps: Sequence[Options], mirrors: bool
) -> Arrays:
    """Takes the steps in their order; the crop was made while images were read.

    Args:
      batch: what moves, see above; changed.
      keys: uint64 [batch].
      mirrored: bool [batch], which views are the mirror image of another.
      steps: see `OF_ARRAYS`.
      mirrors: whether `many_views` makes mirror images, so that none is flipped at random.
    """
    for place, step in enumerate(steps):
        own = fold(keys, place)
        if isinstance(step, PadAndCrop):
            _pad_and_crop(batch, own, step)
        elif isinstance(step, FlipVertical):
            _reverse(batch, uniform(own, 1)[:, 0] < np.float32(step.probability), 1)
        elif isinstance(step, FlipHorizontal) and not mirrors:
            _reverse(batch, uniform(own, 1)[:, 0] < np.float32(step.probability), 2)
    if mirrors:
        _reverse(batch, mirrored, 2)
    return batch


def _reverse(batch: Arrays, chosen: np.ndarray, axis: int) -> None:
    """Reverses the rows (axis 1) or the columns (axis 2) of the chosen images."""
    for name in {IMAGES, MASKS} & batch.keys():
        pixels = batch[name]
        pixels[chosen] = np.flip(pixels[chosen], axis)
    if BOXES in batch:
        sides = np.split(batch[BOXES][chosen], 4, axis=-1)
        start, end = axis - 1, axis + 1
        sides[start], sides[end] = 1 - sides[end], 1 - sides[start]
        batch[BOXES][chosen] = clip_boxes(np.concatenate(sides, axis=-1))


def _pad_and_crop(batch: Arrays, keys: np.ndarray, step: PadAndCrop) -> None:
    """Pads every side, then takes the images' size out of it at random."""
    size = batch[IMAGES].shape[1:3]
    pad_px = step.find_pad_px(*size)
    # What stands in the first row and column; negative in the padding.
    starts = (uniform(keys, 2) * np.float32(2 * pad_px + 1)).astype(np.int32) - pad_px
    lines = [starts[:, axis, None] + np.arange(size[axis]) for axis in (0, 1)]
    rows, columns = (_mirror(each, length) for each, length in zip(lines, size, strict=True))
    is_inside = [(each >= 0) & (each < length) for each, length in zip(lines, size, strict=True)]
    outside = ~(is_inside[0][:, :, None] & is_inside[1][:, None, :])
    numbers = np.arange(len(keys))[:, None, None]
    for name, fill in ((IMAGES, step.fill), (MASKS, IGNORED)):
        if name in batch:
            batch[name] = batch[name][numbers, rows[:, :, None], columns[:, None, :]]
            if step.mode == "constant":
                batch[name][outside] = fill
    if BOXES in batch:
        shares = np.tile(starts / np.array(size, np.float64), [1, 2])[:, None]
        moved = batch[BOXES].astype(np.float64) - shares
        visible = batch[VISIBLE] * shares_inside(moved)
        batch[VISIBLE] = np.rint(visible * np.float32(_STEPS)) / np.float32(_STEPS)
        batch[BOXES] = clip_boxes(moved)


def _mirror(places: np.ndarray, length: int) -> np.ndarray:
    """Rows or columns outside, mirrored at the outermost ones as often as it takes."""
    last = length - 1
    return np.zeros_like(places) if not last else last - np.abs(last - places % (2 * last))


def clip_boxes(boxes: np.ndarray) -> np.ndarray:
    """Cuts boxes (float [..., 4]) at the image's edges, see `augment.batch.clip_boxes`: float32."""
    clipped = np.clip(boxes, 0, 1).astype(np.float32)
    has_area = (clipped[..., 2:] - clipped[..., :2] > _LEAST_SIDE).all(axis=-1, keepdims=True)
    return np.where(has_area, clipped, np.float32(0))


def shares_inside(boxes: np.ndarray) -> np.ndarray:
    """Which share of each box's area (float64 [..., 4]) is inside the image; 0 of no area."""
    whole, inside = _areas(boxes), _areas(np.clip(boxes, 0, 1))
    share = np.where(whole > 0, inside / np.where(whole > 0, whole, 1), 0)
    return (np.rint(share * _STEPS) / _STEPS).astype(np.float32)


def _areas(boxes: np.ndarray) -> np.ndarray:
    sides = np.maximum(boxes[..., 2:] - boxes[..., :2], 0)
    return sides[..., 0] * sides[..., 1]
