"""TFMA's metric for masks: intersection over union, from one matrix of pixel counts.

TFMA 0.52's own metrics for segmentation count true and false positives, for classes that are named
beforehand; it has no false negatives, and so no intersection over union.
"""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util

from image_pipeline.components.dataset import record
from image_pipeline.components.training.signatures import MASK

MEAN_IOU = "mean_io_u"
CLASS_IOU = "io_u"  # with the class's id as TFMA's sub-key
PIXEL_ACCURACY = "pixel_accuracy"

_IDS = 256  # A mask's pixel is a byte.


class MeanIoU(metric_types.Metric):
    """Mean IoU over the classes that occur, each class's, and the share of pixels that are right.

    Pixels whose true class is `record.IGNORED` count in none of them.
    """

    def __init__(self, name: str = MEAN_IOU):
        """Takes TFMA's name of the first figure."""
        super().__init__(metric_util.merge_per_key_computations(_make_computations), name=name)


def _make_computations(
    name: str = MEAN_IOU, model_name: str = "", output_name: str = "", **_: Any
) -> metric_types.MetricComputations:
    key = metric_types.MetricKey(name=name, model_name=model_name, output_name=output_name)
    # A threshold holds for the keys that are listed here; the others come beside it.
    return [metric_types.MetricComputation(keys=[key], preprocessors=None, combiner=_Count(key))]


class _Count(beam.CombineFn):
    """Adds up int64 [true id, predicted id], as large as the ids that occur ask for."""

    def __init__(self, key: metric_types.MetricKey):
        self._key = key

    def create_accumulator(self) -> np.ndarray:
        return np.zeros((0, 0), np.int64)

    def add_input(
        self, accumulator: np.ndarray, element: metric_types.StandardMetricInputs
    ) -> np.ndarray:
        true = pick(element.get_labels(), self._key.model_name)
        predicted = pick(element.get_predictions(), self._key.model_name, MASK)
        return _add(accumulator, count_pixels(true, predicted))

    def merge_accumulators(self, accumulators: Iterable[np.ndarray]) -> np.ndarray:
        merged = self.create_accumulator()
        for each in accumulators:
            merged = _add(merged, each)
        return merged

    def extract_output(self, accumulator: np.ndarray) -> dict[metric_types.MetricKey, float]:
        shares = class_ious(accumulator)
        of_classes = {
            self._key._replace(name=CLASS_IOU, sub_key=metric_types.SubKey(class_id=id_)): share
            for id_, share in enumerate(shares.tolist())
            if not np.isnan(share)
        }
        total = accumulator.sum()
        return {
            self._key: float(np.nanmean(shares)) if of_classes else float("nan"),
            self._key._replace(name=PIXEL_ACCURACY): (
                float(np.trace(accumulator) / total) if total else float("nan")
            ),
            **of_classes,
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


def pick(values: Any, *keys: str) -> np.ndarray:
    """The values of a model and of an output, where they are kept by these names."""
    for key in keys:
        values = values[key] if isinstance(values, dict) and key in values else values
    return values


def _add(some: np.ndarray, more: np.ndarray) -> np.ndarray:
    size = max(len(some), len(more))
    total = np.zeros((size, size), np.int64)
    for each in (some, more):
        total[: len(each), : len(each)] += each
    return total
