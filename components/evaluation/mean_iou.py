"""TFMA's metric for masks: intersection over union, from one matrix of pixel counts.

TFMA 0.52's own metrics for segmentation count true and false positives, for classes that are named
beforehand; it has no false negatives, and so no intersection over union.
"""

import numpy as np
from tensorflow_model_analysis.metrics import metric_types

from image_pipeline.components.dataset import record
from image_pipeline.components.evaluation.counted_metric import Counts, Figures, compute_by
from image_pipeline.components.tasks.signatures import MASK

MEAN_IOU = "mean_io_u"
CLASS_IOU = "io_u"
PIXEL_ACCURACY = "pixel_accuracy"
# Of a class's pixels: the id of the other class that most of them are taken for, and their share.
TAKEN_FOR, MISTAKEN = "taken_for", "mistaken"

_IDS = 256  # A mask's pixel is a byte.


class MeanIoU(metric_types.Metric):
    """Mean IoU over the classes that occur, each class's, and the share of pixels that are right.

    Pixels whose true class is `record.IGNORED` count in none of them.
    """

    def __init__(self, name: str = MEAN_IOU):
        """Takes TFMA's name of the first figure."""
        super().__init__(compute_by(_Count), name=name)


class _Count(Counts):
    """Adds up int64 [true id, predicted id], as large as the ids that occur ask for."""

    output = MASK

    def create_accumulator(self) -> np.ndarray:
        return np.zeros((0, 0), np.int64)

    def count(self, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return count_pixels(true, predicted)

    def add(self, some: np.ndarray, more: np.ndarray) -> np.ndarray:
        size = max(len(some), len(more))
        total = np.zeros((size, size), np.int64)
        for each in (some, more):
            total[: len(each), : len(each)] += each
        return total

    def make_figures(self, counted: np.ndarray, name: str) -> Figures:
        shares = class_ious(counted)
        total = counted.sum()
        return {
            (name, None): np.nan if np.isnan(shares).all() else np.nanmean(shares),
            (PIXEL_ACCURACY, None): np.trace(counted) / total if total else np.nan,
            **{(CLASS_IOU, id_): share for id_, share in enumerate(shares)},
            **_find_mistakes(counted),
        }


def _find_mistakes(counts: np.ndarray) -> Figures:
    """What each class is most often taken for, of those that ever are."""
    wrong = counts * ~np.eye(len(counts), dtype=bool)
    return {
        (name, id_): figure
        for id_, row in enumerate(wrong)
        if row.any()
        for name, figure in ((TAKEN_FOR, row.argmax()), (MISTAKEN, row.max() / counts[id_].sum()))
    }


def count_pixels(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Counts pixels by their true and predicted class: int64 [true id, predicted id].

    Args:
      true: uint8, any shape, class ids, `record.IGNORED` where none is asked.
      predicted: uint8 of as many pixels, class ids.
    """
    true, predicted = np.ravel(true), np.ravel(predicted)
    asked = true != record.IGNORED
    pairs = true[asked].astype(np.int64) * _IDS + predicted[asked]
    ids = int(max(true[asked].max(initial=0), predicted[asked].max(initial=0))) + 1
    return np.bincount(pairs, minlength=_IDS**2).reshape(_IDS, _IDS)[:ids, :ids]


def class_ious(counts: np.ndarray) -> np.ndarray:
    """Each class's intersection over union, NaN if it does not occur: float64 [classes].

    Args:
      counts: int64 [true id, predicted id].
    """
    both = np.diagonal(counts)
    either = counts.sum(axis=0) + counts.sum(axis=1) - both
    return np.divide(both, either, out=np.full(len(both), np.nan), where=either > 0)
