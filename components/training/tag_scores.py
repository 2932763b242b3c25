"""TFMA's metric for tags: precision, recall and F1, from three counts a tag.

TFMA's own metrics would need the number of tags before the analysis has found them, or mix all of
them into one figure.
"""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util

from image_pipeline.components.training.mean_iou import pick
from image_pipeline.components.training.signatures import PROBABILITIES
from image_pipeline.components.training.tagging import THRESHOLD

# Over all images and tags; or of a tag, with its id as TFMA's sub-key.
F1, PRECISION, RECALL = "f1", "precision", "recall"
MEAN_F1 = "mean_f1"  # over the tags that occur


class TagScores(metric_types.Metric):
    """Precision, recall and F1 over all images and tags, the tags' mean F1, and each tag's scores.

    A tag is predicted if it is likelier than `THRESHOLD`. One that occurs neither in the truth nor
    in a prediction has no score.
    """

    def __init__(self, name: str = F1):
        """Takes TFMA's name of the first figure."""
        super().__init__(metric_util.merge_per_key_computations(_make_computations), name=name)


def _make_computations(
    name: str = F1, model_name: str = "", output_name: str = "", **_: Any
) -> metric_types.MetricComputations:
    key = metric_types.MetricKey(name=name, model_name=model_name, output_name=output_name)
    # A threshold holds for the keys that are listed here; the others come beside it.
    return [metric_types.MetricComputation(keys=[key], preprocessors=None, combiner=_Count(key))]


class _Count(beam.CombineFn):
    """Adds up int64 [3, tags]: see `count_tags`."""

    def __init__(self, key: metric_types.MetricKey):
        self._key = key

    def create_accumulator(self) -> np.ndarray:
        return np.zeros((3, 1), np.int64)

    def add_input(
        self, accumulator: np.ndarray, element: metric_types.StandardMetricInputs
    ) -> np.ndarray:
        true = pick(element.get_labels(), self._key.model_name)
        predicted = pick(element.get_predictions(), self._key.model_name, PROBABILITIES)
        return accumulator + count_tags(true, predicted)

    def merge_accumulators(self, accumulators: Iterable[np.ndarray]) -> np.ndarray:
        return sum(accumulators, start=self.create_accumulator())

    def extract_output(self, accumulator: np.ndarray) -> dict[metric_types.MetricKey, float]:
        of_tags = score_tags(accumulator)
        of_all = score_tags(accumulator.sum(axis=1, keepdims=True))[:, 0]
        f1 = of_tags[2][np.isfinite(of_tags[2])]
        scores = {self._key._replace(name=MEAN_F1): f1.mean() if len(f1) else np.nan}
        names = (PRECISION, RECALL, self._key.name)
        for name, of_each, score in zip(names, of_tags, of_all, strict=True):
            key = self._key._replace(name=name)
            scores[key] = score
            for id_ in np.flatnonzero(np.isfinite(of_each)).tolist():
                sub_key = metric_types.SubKey(class_id=id_)
                scores[key._replace(sub_key=sub_key)] = of_each[id_]
        return {key: float(score) for key, score in scores.items()}


def count_tags(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Counts an image's tags: int64 [3, tags], right ones, predicted ones and true ones.

    Args:
      true: float32 [tags] (or [images, tags]) of 0 and 1.
      predicted: float32 of the same shape, probabilities.
    """
    tags = np.shape(true)[-1]
    is_true = np.reshape(true, (-1, tags)) > 0
    is_predicted = np.reshape(predicted, (-1, tags)) > THRESHOLD
    counted = (is_true & is_predicted, is_predicted, is_true)
    return np.stack([each.sum(axis=0) for each in counted]).astype(np.int64)


def score_tags(counts: np.ndarray) -> np.ndarray:
    """Precision, recall and F1 of each tag, NaN where nothing is divided by: float64 [3, tags]."""
    right, predicted, true = counts
    above = np.stack([right, right, 2 * right]).astype(np.float64)
    below = np.stack([predicted, true, predicted + true])
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
