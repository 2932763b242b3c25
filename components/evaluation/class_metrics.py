"""Metrics of a classifier's answers: accuracy, confusions, calibration, the worst records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from image_pipeline.components.evaluation.answers import (
    BASELINE_RIGHT,
    ID,
    LABEL,
    LABEL_PROBABILITY,
    LEAST_PROBABILITY,
    NAME,
    PREDICTION,
    PROBABILITY,
)
from image_pipeline.components.evaluation.facts import Mistake
from image_pipeline.components.evaluation.intervals import (
    LEVEL,
    compare_answers,
    estimate_by_drawing,
    estimate_share,
    reflect,
    score_class,
    wilson_interval,
)
from image_pipeline.components.evaluation.metrics import Estimate

ACCURACY, MACRO_F1, LOSS = "accuracy", "macro F1", "loss"
CALIBRATION = "calibration error"
MOST_WORST = 100
MOST_CONFUSED = 100
BINS = 15  # as C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, have it
_TIMES = 1000


def describe_answers(answers: pa.Table, names: Sequence[str]) -> dict[str, Any]:
    """The metrics of all records; see `describe_model.describe_model`.

    Returns:
      `answers` as `facts.ClassAnswers`: of `MOST_CONFUSED` pairs of ids at most, with the matrix of
      not more classes than that; and, if an earlier model was asked, `compared`, see
      `compare_answers`.
    """
    labels, predicted = _read(answers, LABEL), _read(answers, PREDICTION)
    is_right = labels == predicted
    counts = count_pairs(labels, predicted, len(names))
    compared = {}
    if answers[BASELINE_RIGHT].null_count == 0:
        compared = {"compared": compare_answers(is_right, _read(answers, BASELINE_RIGHT))}
    further = _estimate(answers, labels, predicted, len(names))
    return {
        "metrics": {ACCURACY: estimate_share(int(is_right.sum()), len(labels)), **further},
        "constant": find_constant(labels, names),
        "classes": _list_classes(counts, names),
        "answers": {
            "names": list(names),
            "matrix": counts.toarray().tolist() if len(names) <= MOST_CONFUSED else None,
            "confusions": _list_confusions(counts),
            "calibration": describe_bins(_read(answers, PROBABILITY), is_right),
            "worst": _list_worst(answers, names),
        },
        **compared,
    }


def describe_slice(answers: pa.Table) -> dict[str, Any]:
    """The accuracy of some records, and of the best answer that is always the same."""
    labels = _read(answers, LABEL)
    right = int((labels == _read(answers, PREDICTION)).sum())
    most = np.bincount(labels).max()
    return {"figure": estimate_share(right, len(labels)), "constant": float(most / len(labels))}


def count_pairs(labels: np.ndarray, predicted: np.ndarray, classes: int) -> sparse.csr_array:
    """Records by their class and the predicted one: int64 [classes, classes]."""
    ones = np.ones(len(labels), np.int64)
    pairs = sparse.coo_array((ones, (labels, predicted)), (classes, classes))
    return pairs.tocsr()


def find_constant(labels: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """The most frequent class, and the accuracy of a model that always answers it."""
    counts = np.bincount(labels, minlength=len(names))
    most = int(counts.argmax())
    return {"answer": names[most], "value": float(counts[most] / len(labels))}


def score_classes(true: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> np.ndarray:
    """F1 of each class, from its numbers of records; NaN where it is neither true nor predicted."""
    total = true + predicted
    return np.divide(2 * right, total, out=np.full(len(total), np.nan), where=total > 0)


def _estimate(
    answers: pa.Table, labels: np.ndarray, predicted: np.ndarray, classes: int
) -> dict[str, Estimate]:
    """What is not a share, by bootstrap."""
    is_right = labels == predicted
    probability = _read(answers, PROBABILITY)
    bins = bin_probabilities(probability)
    loss = find_losses(answers)

    def compute(weights: np.ndarray) -> dict[str, float]:
        true, answered, right = (
            np.bincount(ids, own, classes)
            for ids, own in ((labels, weights), (predicted, weights), (labels, weights * is_right))
        )
        f1 = score_classes(true, answered, right)
        return {
            MACRO_F1: float(np.nanmean(f1)),
            LOSS: float((weights * loss).sum() / weights.sum()),
            CALIBRATION: calibration_error(bins, probability, is_right, weights),
        }

    found = estimate_by_drawing(compute, len(labels))
    by_chance = find_chance(bins, probability)
    return found | {CALIBRATION: reflect(found[CALIBRATION], by_chance)}


def _list_classes(counts: sparse.csr_array, names: Sequence[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class, by name."""
    true, predicted = counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
    right = counts.diagonal().tolist()
    return [
        {
            **{"name": names[id_], "records": true[id_]},
            "mistake": _find_mistake(counts[[id_]].toarray()[0], id_, names),
            **score_class(right[id_], predicted[id_], true[id_]),
        }
        for id_ in sorted(range(len(names)), key=lambda id_: names[id_])
    ]


def _find_mistake(answered: np.ndarray, id_: int, names: Sequence[str]) -> Mistake | None:
    """What most of a class's wrong records are taken for, by the predictions: int64 [classes]."""
    wrong = np.where(np.arange(len(answered)) == id_, 0, answered)
    if not wrong.any():
        return None
    most = int(wrong.argmax())
    return Mistake(taken_for=names[most], share=float(wrong[most] / answered.sum()))


def _list_confusions(counts: sparse.csr_array) -> list[list[int]]:
    pairs = counts.tocoo()
    rows = zip(pairs.row.tolist(), pairs.col.tolist(), pairs.data.tolist(), strict=True)
    wrong = sorted((-count, label, answer) for label, answer, count in rows if label != answer)
    return [[label, answer, -count] for count, label, answer in wrong[:MOST_CONFUSED]]


def _list_worst(answers: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """The records of the highest loss, highest first."""
    loss = find_losses(answers)
    rows = np.argsort(-loss, kind="stable")[:MOST_WORST]
    return [
        {
            **{ID: row[ID], NAME: row[NAME]},
            **{LABEL: names[row[LABEL]], PREDICTION: names[row[PREDICTION]]},
            **{PROBABILITY: row[PROBABILITY], LABEL_PROBABILITY: row[LABEL_PROBABILITY]},
            "loss": float(of_row),
        }
        for row, of_row in zip(answers.take(rows).to_pylist(), loss[rows], strict=True)
    ]


def find_losses(answers: pa.Table) -> np.ndarray:
    """The cross entropy of each record: float64 [records]."""
    of_label = _read(answers, LABEL_PROBABILITY).astype(np.float64)
    return -np.log(np.maximum(of_label, LEAST_PROBABILITY))


def _read(answers: pa.Table, name: str) -> np.ndarray:
    return answers[name].combine_chunks().to_numpy(zero_copy_only=False)


def bin_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """The number of each probability's bin, of `BINS` equally wide ones: int64 [n].

    A bin has its upper end, not its lower one; 0 is in the first.
    """
    return np.clip(np.ceil(probabilities.astype(np.float64) * BINS) - 1, 0, BINS - 1).astype(int)


def calibration_error(
    bins: np.ndarray, probabilities: np.ndarray, is_right: np.ndarray, weights: np.ndarray
) -> float:
    """The expected calibration error: how far probability and accuracy are apart, on average.

    It is above 0 by chance alone: by less, the more records there are.

    Args:
      bins: int64 [n], as `bin_probabilities` gives them.
      probabilities: float [n], of what was predicted.
      is_right: bool [n], whether that is true.
      weights: int64 [n], how often each counts.

    Returns:
      The mean over the records of the difference, in their bin, between the accuracy and the mean
      probability; NaN without records.
    """
    excess = np.bincount(bins, weights * (is_right - probabilities.astype(np.float64)), BINS)
    total = weights.sum()
    return float(np.abs(excess).sum() / total) if total else np.nan


def find_chance(bins: np.ndarray, probabilities: np.ndarray) -> float:
    """The error that a model of the same probabilities has by chance alone.

    Args:
      bins, probabilities: as for `calibration_error`; at least one.

    Returns:
      What the error stays below, but for one time in 40, if every probability is right.
    """
    records = np.bincount(bins, minlength=BINS)
    expected = np.bincount(bins, probabilities.astype(np.float64), BINS)
    shares = np.minimum(expected / np.maximum(records, 1), 1)
    right = np.random.default_rng(0).binomial(records, shares, (_TIMES, BINS))
    errors = np.abs(right - expected).sum(axis=1) / records.sum()
    return float(np.quantile(errors, (1 + LEVEL) / 2))


def describe_bins(probabilities: np.ndarray, is_right: np.ndarray) -> list[dict[str, float]]:
    """The reliability curve: of each bin that has records, their number and both means.

    Args:
      probabilities, is_right: as for `calibration_error`.

    Returns:
      Of each bin, by its upper end: `up_to`, `records`, `probability`, `accuracy`, and the ends of
      the accuracy's interval, `low` and `high`.
    """
    bins = bin_probabilities(probabilities)
    found = []
    for number in np.unique(bins).tolist():
        own = bins == number
        records, right = int(own.sum()), int(is_right[own].sum())
        low, high = wilson_interval(right, records)
        found.append(
            {
                **{"up_to": (number + 1) / BINS, "records": records},
                "probability": float(probabilities[own].astype(np.float64).mean()),
                **{"accuracy": right / records, "low": low, "high": high},
            }
        )
    return found
