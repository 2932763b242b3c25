"""TFMA's side of metrics of our own: what is counted of each record, added up, makes their values.

TFMA 0.52's own metrics for segmentation have no false negatives, and so no intersection over union,
and want classes that are named beforehand; those for tags, too, would need their number before the
analysis has found it, or mix all of them into one figure.
"""

import abc
import functools
import math
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util

from image_pipeline.components.dataset import record
from image_pipeline.components.evaluation.answers import count_tags
from image_pipeline.components.evaluation.tag_metrics import score_all
from image_pipeline.components.tasks.signatures import MASK, PROBABILITIES

Metrics = dict[tuple[str, int | None], float]
"""Metrics by their name and, of a class's own, the class's id."""


class Counts(beam.CombineFn):
    """Adds up what the records of a slice say; a subclass says what and how.

    Attributes:
      output: the signature's output that holds a record's prediction.
    """

    output = ""

    def __init__(self, key: metric_types.MetricKey):
        """Takes TFMA's key of the first figure."""
        self._key = key

    @abc.abstractmethod
    def create_accumulator(self) -> Any:
        """What no record says."""

    @abc.abstractmethod
    def count(self, true: Any, predicted: Any) -> Any:
        """What one record says, or some."""

    @abc.abstractmethod
    def add(self, some: Any, more: Any) -> Any:
        """What both say."""

    @abc.abstractmethod
    def make_values(self, counted: Any, name: str) -> Metrics:
        """The values, the first one by this name; a class without one (NaN) is left out."""

    def add_input(self, accumulator: Any, element: metric_types.StandardMetricInputs) -> Any:
        """Adds a record."""
        true = _pick(element.get_labels(), self._key.model_name)
        predicted = _pick(element.get_predictions(), self._key.model_name, self.output)
        return self.add(accumulator, self.count(true, predicted))

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """Adds up parts."""
        return functools.reduce(self.add, accumulators, self.create_accumulator())

    def extract_output(self, accumulator: Any) -> dict[metric_types.MetricKey, float]:
        """The values, by TFMA's keys."""
        return {
            self._key._replace(
                name=name, sub_key=None if id_ is None else metric_types.SubKey(class_id=id_)
            ): float(figure)
            for (name, id_), figure in self.make_values(accumulator, self._key.name).items()
            if id_ is None or not math.isnan(figure)
        }


class CountedMetric(metric_types.Metric):
    """A metric whose values `counts` makes; a subclass names it.

    Attributes:
      counts: adds up what records say.
      first: TFMA's name of the first figure.
    """

    counts: type[Counts]
    first: str

    def __init__(self, name: str = ""):
        """Takes TFMA's name of the first figure, or the metric's own."""

        def compute(
            name: str, model_name: str = "", output_name: str = "", **_: Any
        ) -> metric_types.MetricComputations:
            key = metric_types.MetricKey(name=name, model_name=model_name, output_name=output_name)
            combiner = self.counts(key)
            # A threshold holds for the keys that are listed here; the others come beside it.
            return [
                metric_types.MetricComputation(keys=[key], preprocessors=None, combiner=combiner)
            ]

        computations = metric_util.merge_per_key_computations(compute)
        super().__init__(computations, name=name or self.first)


def _pick(values: Any, *keys: str) -> Any:
    """The values of a model and of an output, where they are kept by these names."""
    for key in keys:
        values = values[key] if isinstance(values, dict) and key in values else values
    return values


MEAN_IOU = "mean_io_u"
CLASS_IOU = "io_u"
PIXEL_ACCURACY = "pixel_accuracy"
# Of a class's pixels: the id of the other class that most of them are taken for, and their share.
TAKEN_FOR, MISTAKEN = "taken_for", "mistaken"

_IDS = 256  # A mask's pixel is a byte.


class _CountPixels(Counts):
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

    def make_values(self, counted: np.ndarray, name: str) -> Metrics:
        shares = class_ious(counted)
        total = counted.sum()
        wrong = counted * ~np.eye(len(counted), dtype=bool)
        mistaken = {id_: row for id_, row in enumerate(wrong) if row.any()}
        return {
            (name, None): np.nan if np.isnan(shares).all() else np.nanmean(shares),
            (PIXEL_ACCURACY, None): np.trace(counted) / total if total else np.nan,
            **{(CLASS_IOU, id_): share for id_, share in enumerate(shares)},
            **{(TAKEN_FOR, id_): row.argmax() for id_, row in mistaken.items()},
            **{(MISTAKEN, id_): row.max() / counted[id_].sum() for id_, row in mistaken.items()},
        }


class MeanIoU(CountedMetric):
    """Mean IoU over the classes that occur, each class's, and the share of pixels that are right.

    Pixels whose true class is `record.IGNORED` count in none of them.
    """

    counts, first = _CountPixels, MEAN_IOU


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


# Over all images and tags; or a tag's own.
F1, PRECISION, RECALL = "f1", "precision", "recall"
MEAN_F1 = "mean_f1"  # over the tags that occur


class _CountTags(Counts):
    """Adds up int64 [3, tags]: see `count_tags`."""

    output = PROBABILITIES

    def create_accumulator(self) -> np.ndarray:
        return np.zeros((3, 1), np.int64)

    def count(self, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return count_tags(true, predicted)

    def add(self, some: np.ndarray, more: np.ndarray) -> np.ndarray:
        return some + more

    def make_values(self, counted: np.ndarray, name: str) -> Metrics:
        of_tags, of_all, mean_f1 = score_all(counted)
        metrics: Metrics = {(MEAN_F1, None): mean_f1}
        for each, of_each, score in zip((PRECISION, RECALL, name), of_tags, of_all, strict=True):
            metrics[each, None] = score
            metrics |= {(each, id_): own for id_, own in enumerate(of_each)}
        return metrics


class TagScores(CountedMetric):
    """Precision, recall and F1 over all images and tags, the tags' mean F1, and each tag's scores.

    A tag is predicted if it is likelier than `LIKELY`. One that occurs neither in the truth nor
    in a prediction has no score.
    """

    counts, first = _CountTags, F1
