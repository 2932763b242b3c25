"""Metrics of a tagger's answers: precision, recall and F1, overall and of each tag."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from image_pipeline.components.evaluation.answers import (
    ANSWERED,
    ANSWERED_PROBABILITIES,
    BASELINE_COUNTS,
    ID,
    LOSS,
    NAME,
    TAG_PROBABILITIES,
    TAGS,
)
from image_pipeline.components.evaluation.intervals import estimate_by_drawing, score_class
from image_pipeline.components.evaluation.metrics import Estimate

F1, PRECISION, RECALL, MEAN_F1 = "F1", "precision", "recall", "mean F1"
GAINED = f"{F1} gained"  # over the earlier model
MOST_WORST = 100


def describe_answers(answers: pa.Table, names: Sequence[str]) -> dict[str, Any]:
    """The metrics of all images; see `describe_model.describe_model`.

    Images are drawn for the intervals, not tags: those of one image are not separate trials. Of one
    tag they are, so its intervals are Wilson's.
    """
    true, answered = (_mark(answers, column, len(names)) for column in (TAGS, ANSWERED))
    counts = _count(true, answered, np.ones(len(answers), np.int64))
    return {
        "metrics": _estimate(answers, true, answered),
        "constant": find_constant(counts[2], len(answers), names),
        "classes": _list_tags(counts, names),
        "answers": {
            "right": int((abs(true - answered).sum(axis=1) == 0).sum()),
            "worst": _list_worst(answers, names),
        },
    }


def describe_slice(answers: pa.Table) -> dict[str, Any]:
    """F1 over some images and all tags."""
    ids = [answers[column].combine_chunks().flatten() for column in (TAGS, ANSWERED)]
    most = max((pc.max(each).as_py() for each in ids if len(each)), default=0) + 1
    tags = [_mark(answers, column, most) for column in (TAGS, ANSWERED)]
    return {"figure": _estimate(answers, *tags)[F1]}


def find_constant(true: np.ndarray, images: int, names: Sequence[str]) -> dict[str, Any]:
    """The tags that are best answered for every image, and F1 if they are.

    Args:
      true: int [tags], how many images have each.
      images: how many images there are.
      names: of the tags.
    """
    order = np.argsort(-true, kind="stable")
    right = np.cumsum(true[order])
    scores = 2 * right / (true.sum() + images * np.arange(1, len(true) + 1))
    best = int(scores.argmax())
    answer = ", ".join(names[id_] for id_ in order[: best + 1].tolist())
    return {"answer": answer, "value": float(scores[best])}


def _list_tags(counts: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each tag, by name."""
    rows = []
    for id_ in sorted(range(len(names)), key=lambda id_: names[id_]):
        right, answered, true = counts[:, id_].tolist()
        rows.append({"name": names[id_], "records": true, **score_class(right, answered, true)})
    return rows


def _estimate(
    answers: pa.Table, true: sparse.csr_array, answered: sparse.csr_array
) -> dict[str, Estimate]:
    """The metrics over all tags, by bootstrap, and how F1 changed from the earlier model's."""
    earlier = None
    if not answers[BASELINE_COUNTS].null_count:
        earlier = answers[BASELINE_COUNTS].combine_chunks().flatten().to_numpy().reshape(-1, 3).T

    def compute(weights: np.ndarray) -> dict[str, float]:
        counts = _count(true, answered, weights)
        _, (precision, recall, over_all), mean_f1 = score_all(counts)
        found = {PRECISION: precision, RECALL: recall, F1: over_all, MEAN_F1: mean_f1}
        if earlier is not None:
            found[GAINED] = over_all - float(score_tags((earlier @ weights)[:, None])[2, 0])
        return found

    return estimate_by_drawing(compute, true.shape[0])


def _count(true: sparse.csr_array, answered: sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """Right, answered and true ones of each tag, each image as often as it counts."""
    both = true.multiply(answered)
    return np.stack([each.T @ weights for each in (both, answered, true)])


def score_tags(counts: np.ndarray) -> np.ndarray:
    """Precision, recall and F1 of each tag, NaN where nothing is divided by: float64 [3, tags].

    Args:
      counts: int64 [3, tags], right ones, predicted ones and true ones.
    """
    right, predicted, true = counts
    above = np.stack([right, right, 2 * right]).astype(np.float64)
    below = np.stack([predicted, true, predicted + true])
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)


def score_all(counts: np.ndarray) -> tuple[np.ndarray, list[float], float]:
    """`score_tags`; precision, recall and F1 over all tags; and the mean F1 of tags that occur."""
    of_tags = score_tags(counts)
    of_all = score_tags(counts.sum(axis=1, keepdims=True))[:, 0]
    f1 = of_tags[2][np.isfinite(of_tags[2])]
    return of_tags, of_all.tolist(), float(f1.mean()) if len(f1) else np.nan


def _mark(answers: pa.Table, column: str, tags: int) -> sparse.csr_array:
    """Which image has which tag: int64 [images, tags] of 0 and 1."""
    lists = answers[column].combine_chunks()
    ids = lists.flatten().to_numpy(zero_copy_only=False)
    lengths = np.diff(lists.offsets.to_numpy())
    rows = np.repeat(np.arange(len(lists)), lengths)
    return sparse.csr_array((np.ones(len(ids), np.int64), (rows, ids)), (len(lists), tags))


def _list_worst(answers: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """The images of the highest loss, highest first, see `facts.TagMiss`."""
    loss = answers[LOSS].combine_chunks().to_numpy()
    order = np.argsort(-loss, kind="stable")[:MOST_WORST]
    found = []
    for row in answers.take(order).to_pylist():
        of_true = dict(zip(row[TAGS], row[TAG_PROBABILITIES], strict=True))
        of_answered = dict(zip(row[ANSWERED], row[ANSWERED_PROBABILITIES], strict=True))
        missed, wrong = (
            {names[id_]: share for id_, share in some.items() if id_ not in others}
            for some, others in ((of_true, of_answered), (of_answered, of_true))
        )
        found.append({name: row[name] for name in (ID, NAME, LOSS)})
        found[-1] |= {"missed": missed, "wrong": wrong}
    return found
