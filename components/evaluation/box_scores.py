"""TFMA's metric for boxes: COCO's mean average precision.

TFMA 0.52's own, `COCOMeanAveragePrecision`, needs the ids of the classes before the analysis has
found them.
"""

from collections.abc import Sequence

import numpy as np
from tensorflow_model_analysis.metrics import metric_types

from image_pipeline.components.evaluation.average_precision import (
    Found,
    average_precisions,
    match_boxes,
)
from image_pipeline.components.evaluation.counted_metric import Counts, Figures, compute_by
from image_pipeline.components.tasks.signatures import OBJECTS

# The mean over the overlaps from 0.5 to 0.95, and that at 0.5; over the classes, and of a class.
MAP, MAP_50 = "map_50_95", "map_50"
CLASS_AP = "ap_50_95"
# Of a class's true boxes: the share that is found, with an overlap of 0.5 and whatever score.
FOUND = "found_50"

_Parts = dict[int, list[Found]]


class MeanAveragePrecision(metric_types.Metric):
    """COCO's mean average precision over the classes that have true boxes, and each class's."""

    def __init__(self, name: str = MAP):
        """Takes TFMA's name of the first figure."""
        super().__init__(compute_by(_Count), name=name)


class _Count(Counts):
    """Keeps what was found of each class, image by image: precision needs all scores at once."""

    output = OBJECTS

    def create_accumulator(self) -> _Parts:
        return {}

    def count(self, true: np.ndarray, predicted: np.ndarray) -> _Parts:
        return {id_: [found] for id_, found in match_boxes(true, predicted).items()}

    def add(self, some: _Parts, more: _Parts) -> _Parts:
        for id_, found in more.items():
            some.setdefault(id_, []).extend(found)
        return some

    def compact(self, accumulator: _Parts) -> _Parts:
        return {id_: [join_found(found)] for id_, found in accumulator.items()}

    def make_figures(self, counted: _Parts, name: str) -> Figures:
        precisions = {
            id_: average_precisions(join_found(found)) for id_, found in sorted(counted.items())
        }
        of_all = np.array([each for each in precisions.values() if not np.isnan(each).any()])
        return {
            (name, None): of_all.mean() if len(of_all) else np.nan,
            (MAP_50, None): of_all[:, 0].mean() if len(of_all) else np.nan,
            **{(CLASS_AP, id_): own.mean() for id_, own in precisions.items()},
            **{(FOUND, id_): _find_share(join_found(each)) for id_, each in counted.items()},
        }


def _find_share(found: Found) -> float:
    return found.right[:, 0].sum() / found.true if found.true else np.nan


def join_found(parts: Sequence[Found]) -> Found:
    """What was found in all images of these parts."""
    *arrays, true = zip(*parts, strict=True)
    scores, right, left_out = map(np.concatenate, arrays)
    return Found(scores, right, left_out, sum(true))
