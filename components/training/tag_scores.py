"""TFMA's metric for tags: precision, recall and F1, from three counts a tag.

TFMA's own metrics would need the number of tags before the analysis has found them, or mix all of
them into one figure.
"""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util

from image_pipeline.components.training.tagging import THRESHOLD

F1 = "f1"
MEAN_F1 = "mean_f1"  # over the tags that occur
# Of each tag, with its id as TFMA's sub-key.
TAG_PRECISION, TAG_RECALL, TAG_F1 = "tag_precision", "tag_recall", "tag_f1"


class TagScores(metric_types.Metric):
    """F1 over all images and tags, its mean over the tags, and each tag's scores.

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
        model, output = self._key.model_name, self._key.output_name
        true, predicted = (
            metric_util.optionally_get_by_keys(each, [key for key in (model, output) if key])
            for each in (element.get_labels(), element.get_predictions())
        )
        return accumulator + count_tags(true, predicted)

    def merge_accumulators(self, accumulators: Iterable[np.ndarray]) -> np.ndarray:
        return sum(accumulators, start=self.create_accumulator())

    def extract_output(self, accumulator: np.ndarray) -> dict[metric_types.MetricKey, float]:
        scores = score_tags(accumulator)
        f1 = scores[2]
        (overall,) = score_tags(accumulator.sum(axis=1, keepdims=True))[2]
        mean = np.nanmean(f1) if np.isfinite(f1).any() else np.nan
        return {
            self._key: float(overall),
            self._key._replace(name=MEAN_F1): float(mean),
            **{
                self._key._replace(name=name, sub_key=metric_types.SubKey(class_id=id_)): score
                for name, row in zip((TAG_PRECISION, TAG_RECALL, TAG_F1), scores, strict=True)
                for id_, score in enumerate(row.tolist())
                if not np.isnan(score)
            },
        }


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
