"""COCO's average precision: how boxes that were found are matched, and what it comes to.

It follows COCO's own evaluation (pycocotools' cocoeval.py), for boxes of all sizes. TFMA 0.52's
own, `COCOMeanAveragePrecision`, needs the ids of the classes before the analysis has found them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from image_pipeline.components.evaluation.counted_metrics import CountedMetric, Counts, Metrics
from image_pipeline.components.tasks.signatures import OBJECTS

IOUS = np.arange(50, 100, 5) / 100
"""The overlaps, from 0.5 to 0.95, that a right box must have at least."""
RECALLS = np.linspace(0, 1, 101)
"""Where COCO reads precision off."""


class Found(NamedTuple):
    """Boxes of a class that were found in some images.

    Attributes:
      scores: float32 [boxes].
      right: bool [boxes, IOUS]: whether it is a true one, for each overlap asked.
      left_out: bool [boxes, IOUS]: whether it counts as neither right nor wrong.
      true: how many true boxes there are.
    """

    scores: np.ndarray
    right: np.ndarray
    left_out: np.ndarray
    true: int


def match_boxes(true: np.ndarray, found: np.ndarray) -> dict[int, Found]:
    """Matches the boxes of an image, class by class, the likeliest first.

    A box that was found is matched with that of the true ones not yet matched which it overlaps
    most, if it does so enough; else it is left out if enough of it lies in a true one that does not
    count.

    Args:
      true: float [any, 6]: top, left, bottom, right; class's id; 1 if it is not to be counted.
      found: float [any, 6]: the same, with a score at the end. Boxes of negative ids are none.

    Returns:
      By the id of each class that occurs.
    """
    true, found = (np.asarray(each, np.float64).reshape(-1, 6) for each in (true, found))
    ids = {int(id_) for id_ in (*true[:, 4], *found[:, 4]) if id_ >= 0}
    return {id_: _match(true[true[:, 4] == id_], found[found[:, 4] == id_]) for id_ in sorted(ids)}


def _match(true: np.ndarray, found: np.ndarray) -> Found:
    found = found[np.argsort(-found[:, 5], kind="stable")]
    counts = true[:, 5] == 0
    both, areas = _overlap(found, true), _areas(found)[:, None]
    ious = both / np.maximum(areas + _areas(true) - both, 1e-12)
    inside = (both / np.maximum(areas, 1e-12))[:, ~counts].max(axis=1, initial=0)
    right = np.zeros((len(found), len(IOUS)), bool)
    is_free = np.ones((len(IOUS), counts.sum()), bool)
    for row, own in enumerate(ious[:, counts]) if counts.any() else ():
        candidates = np.where(is_free & (own >= IOUS[:, None]), own, -1)
        best = candidates.argmax(axis=1)
        right[row] = candidates.max(axis=1) >= 0
        is_free[right[row], best[right[row]]] = False
    left_out = ~right & (inside[:, None] >= IOUS)
    return Found(found[:, 5].astype(np.float32), right, left_out, int(counts.sum()))


def average_precisions(found: Found) -> np.ndarray:
    """A class's average precision at each of `IOUS`, NaN if no true box has it: float64 [IOUS]."""
    if not found.true:
        return np.full(len(IOUS), np.nan)
    # Where scores are equal, wrong ones come first: the figure depends on no order of images.
    order = np.lexsort((found.right.sum(axis=1), -found.scores))
    right = found.right[order]
    wrong = ~right & ~found.left_out[order]
    return np.array([_average(*pair, found.true) for pair in zip(right.T, wrong.T, strict=True)])


def _average(right: np.ndarray, wrong: np.ndarray, true: int) -> float:
    hits, misses = np.cumsum(right), np.cumsum(wrong)
    precision = hits / np.maximum(hits + misses, 1)
    # The best precision at this recall or a higher one.
    best = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(hits / true, RECALLS)
    return float(np.append(best, 0)[np.minimum(places, len(best))].mean())


def _overlap(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The area that each of some boxes has in common with each of others: [some, others]."""
    starts = np.maximum(some[:, None, :2], others[None, :, :2])
    ends = np.minimum(some[:, None, 2:4], others[None, :, 2:4])
    return np.prod(np.maximum(ends - starts, 0), axis=-1)


def _areas(boxes: np.ndarray) -> np.ndarray:
    return np.prod(np.maximum(boxes[:, 2:4] - boxes[:, :2], 0), axis=-1)


# The mean over the overlaps from 0.5 to 0.95, and that at 0.5; over the classes, and of a class.
MAP, MAP_50 = "map_50_95", "map_50"
CLASS_AP = "ap_50_95"
# Of a class's true boxes: the share that is found, with an overlap of 0.5 and whatever score.
FOUND = "found_50"

_Parts = dict[int, list[Found]]


class _CountBoxes(Counts):
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

    def make_values(self, counted: _Parts, name: str) -> Metrics:
        found = {id_: join_found(parts) for id_, parts in sorted(counted.items())}
        precisions = {id_: average_precisions(each) for id_, each in found.items()}
        of_all = np.array([each for each in precisions.values() if not np.isnan(each).any()])
        return {
            (name, None): of_all.mean() if len(of_all) else np.nan,
            (MAP_50, None): of_all[:, 0].mean() if len(of_all) else np.nan,
            **{(CLASS_AP, id_): own.mean() for id_, own in precisions.items()},
            **{
                (FOUND, id_): each.right[:, 0].sum() / each.true if each.true else np.nan
                for id_, each in found.items()
            },
        }


class MeanAveragePrecision(CountedMetric):
    """COCO's mean average precision over the classes that have true boxes, and each class's."""

    counts, first = _CountBoxes, MAP


def join_found(parts: Sequence[Found]) -> Found:
    """What was found in all images of these parts."""
    *arrays, true = zip(*parts, strict=True)
    scores, right, left_out = map(np.concatenate, arrays)
    return Found(scores, right, left_out, sum(true))
