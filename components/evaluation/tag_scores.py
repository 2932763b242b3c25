"""TFMA's metric for tags: precision, recall and F1, from three counts a tag.

TFMA's own metrics would need the number of tags before the analysis has found them, or mix all of
them into one figure.
"""

import numpy as np
from tensorflow_model_analysis.metrics import metric_types

from image_pipeline.components.evaluation.counted_metric import Counts, Figures, compute_by
from image_pipeline.components.evaluation.tag_figures import score_tags
from image_pipeline.components.tasks.signatures import LIKELY, PROBABILITIES

# Over all images and tags; or a tag's own.
F1, PRECISION, RECALL = "f1", "precision", "recall"
MEAN_F1 = "mean_f1"  # over the tags that occur


class TagScores(metric_types.Metric):
    """Precision, recall and F1 over all images and tags, the tags' mean F1, and each tag's scores.

    A tag is predicted if it is likelier than `LIKELY`. One that occurs neither in the truth nor
    in a prediction has no score.
    """

    def __init__(self, name: str = F1):
        """Takes TFMA's name of the first figure."""
        super().__init__(compute_by(_Count), name=name)


class _Count(Counts):
    """Adds up int64 [3, tags]: see `count_tags`."""

    output = PROBABILITIES

    def create_accumulator(self) -> np.ndarray:
        return np.zeros((3, 1), np.int64)

    def count(self, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return count_tags(true, predicted)

    def add(self, some: np.ndarray, more: np.ndarray) -> np.ndarray:
        return some + more

    def make_figures(self, counted: np.ndarray, name: str) -> Figures:
        of_tags = score_tags(counted)
        of_all = score_tags(counted.sum(axis=1, keepdims=True))[:, 0]
        f1 = of_tags[2][np.isfinite(of_tags[2])]
        figures: Figures = {(MEAN_F1, None): f1.mean() if len(f1) else np.nan}
        for each, of_each, score in zip((PRECISION, RECALL, name), of_tags, of_all, strict=True):
            figures[each, None] = score
            figures |= {(each, id_): own for id_, own in enumerate(of_each)}
        return figures


def count_tags(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Counts an image's tags: int64 [3, tags], right ones, predicted ones and true ones.

    Args:
      true: float32 [tags] (or [images, tags]) of 0 and 1.
      predicted: float32 of the same shape, probabilities.
    """
    tags = np.shape(true)[-1]
    is_true = np.reshape(true, (-1, tags)) > 0
    is_predicted = np.reshape(predicted, (-1, tags)) > LIKELY
    counted = (is_true & is_predicted, is_predicted, is_true)
    return np.stack([each.sum(axis=0) for each in counted]).astype(np.int64)
