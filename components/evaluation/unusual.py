"""Which records are worth a look: labels likely to be wrong, and images unlike all others.

Labels are doubted by confident learning: C. G. Northcutt, L. Jiang, I. L. Chuang, "Confident
Learning: Estimating Uncertainty in Dataset Labels", Journal of Artificial Intelligence Research 70,
2021. What is used of it are these few lines; the library of its authors, cleanlab, is under the
AGPL.

Its probabilities must come from models that did not see the label: here a logistic regression over
what the network's last layer sees of an image, fitted to the other four fifths of the records. The
network itself has seen the labels of the train split, and may have learned some wrong ones by
heart: its view of such an image is drawn to the wrong class, which hides the error. So fewer are
found among the images that it was trained on, the longer it was trained.

Images are compared by the distance to those they are nearest to: S. Ramaswamy, R. Rastogi,
K. Shim, "Efficient Algorithms for Mining Outliers from Large Data Sets" (SIGMOD 2000); the bound is
that of J. W. Tukey, "Exploratory Data Analysis" (1977), for values that are "far out".
"""

import dataclasses
import warnings
from typing import NamedTuple

import numpy as np
import threadpoolctl
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

FOLDS = 5
MOST_DIMENSIONS = 64  # of an embedding; more cost time, and find no more
_MOST_ITERATIONS = 100
NEIGHBOURS = 5
_FAR_OUT = 3  # times the distance between the quartiles, above the upper one


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A record whose label is likely to be wrong.

    Attributes:
      row: its row among those given.
      likelier: the id of the class that it seems to have.
      score: how likely its label is, from 0 to 1.
      likelier_score: how likely the other class is.
    """

    row: int
    likelier: int
    score: float
    likelier_score: float


class Doubts(NamedTuple):
    """Which labels are in doubt.

    Attributes:
      suspects: the likeliest to be wrong first.
      judged: how many records were looked at.
      agreed: the share of them of which the models that had not seen them gave the label. Weak
        models doubt many labels that are right.
    """

    suspects: list[Suspect]
    judged: int
    agreed: float


def find_suspects(embeddings: np.ndarray, labels: np.ndarray, keys: np.ndarray) -> Doubts:
    """Finds records whose label is likely to be wrong.

    The time is that of five regressions: of 10,000 records of ten classes, a second or two of CPU.

    Args:
      embeddings: float32 [n, any], what a network's last layer sees.
      labels: int [n], class ids.
      keys: unsigned integer [n], spread evenly: it decides in which fold a record is.

    Returns:
      The suspects, and how they were found. Records of classes with less than `FOLDS` records, or
      that one fold has all of, are not judged.
    """
    is_judged = find_judged(labels, keys)
    rows = np.flatnonzero(is_judged)
    if len(np.unique(labels[rows])) < 2:
        return Doubts([], 0, 0.0)
    classes, own = np.unique(labels[rows], return_inverse=True)
    probabilities = cross_validate(reduce(embeddings[rows]), own, keys[rows] % FOLDS)
    likelier = find_likelier(probabilities, own)
    found = np.flatnonzero(likelier >= 0)
    suspects = [
        Suspect(
            row=int(rows[each]),
            likelier=int(classes[likelier[each]]),
            score=round(float(probabilities[each, own[each]]), 4),
            likelier_score=round(float(probabilities[each, likelier[each]]), 4),
        )
        for each in found.tolist()
    ]
    suspects.sort(key=lambda each: (each.score, -each.likelier_score, each.row))
    right = float((probabilities.argmax(axis=1) == own).mean())
    return Doubts(suspects, len(rows), round(right, 4))


def find_judged(labels: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Which records have a class that each fold's regression can learn: bool [n]."""
    ids, own, counts = np.unique(labels, return_inverse=True, return_counts=True)
    in_fold = np.zeros((len(ids), FOLDS), np.int64)
    np.add.at(in_fold, (own, (keys % FOLDS).astype(np.int64)), 1)
    can_be = (counts >= FOLDS) & (in_fold.max(axis=1, initial=0) < counts)
    return can_be[own]


def reduce(embeddings: np.ndarray) -> np.ndarray:
    """The most important dimensions, each with a variance of at most 1: float64 [n, up to 64]."""
    centred = embeddings.astype(np.float64) - embeddings.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    order = np.argsort(-values, kind="stable")[:MOST_DIMENSIONS]
    reduced = centred @ vectors[:, order]
    # One factor for all: to blow up dimensions of noise would hide what tells classes apart.
    return reduced / max(np.sqrt(values[order[0]]), 1e-12)


def cross_validate(features: np.ndarray, labels: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Probabilities of each record's classes by a model that has not seen the record.

    Args:
      features: float64 [n, any].
      labels: int [n], from 0 on, each known outside of every fold.
      folds: int [n], from 0 on.

    Returns:
      float64 [n, classes].
    """
    probabilities = np.zeros((len(labels), labels.max() + 1))
    for fold in np.unique(folds):
        held_out = folds == fold
        model = LogisticRegression(max_iter=_MOST_ITERATIONS)
        # Threads would wait for each other at such small products, for many times as long, and add
        # up in another order on another machine.
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)  # It need not be the very best.
            model.fit(features[~held_out], labels[~held_out])
        probabilities[np.ix_(held_out, model.classes_)] = model.predict_proba(features[held_out])
    return probabilities


def find_likelier(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The class that a record is counted for instead of its label, -1 for none: int [n].

    A record is counted for a class if that is at least as likely as it is, on average, for the
    records that are labelled so; if this holds for several, for the likeliest of them.

    Args:
      probabilities: float [n, classes], each from a model that has not seen the record.
      labels: int [n], each of 0 to classes - 1 at least once.
    """
    of_label = probabilities[np.arange(len(labels)), labels]
    usual = np.bincount(labels, of_label) / np.bincount(labels)
    is_counted = probabilities >= usual
    best = np.where(is_counted, probabilities, -1).argmax(axis=1)
    return np.where(is_counted.any(axis=1) & (best != labels), best, -1)


@dataclasses.dataclass(frozen=True)
class Outlier:
    """An image that is unlike all others.

    Attributes:
      row: its row among those given.
      times: how many times as far it is from those it is nearest to as images usually are.
    """

    row: int
    times: float


def find_outliers(vectors: np.ndarray) -> list[Outlier]:
    """Finds the rows that are far from all others, the farthest first.

    A row's distance is the mean of its Euclidean distances to its five nearest others. Rows are
    found whose distance is above the upper quartile by more than three times the distance between
    the quartiles. All pairs are compared: 10,000 rows of 64 numbers take about 3 s of CPU.

    Args:
      vectors: float [n, any], what is known of each image.

    Returns:
      None of fewer than twice as many rows as neighbours, or if most rows are the same.
    """
    if len(vectors) < 2 * NEIGHBOURS:
        return []
    distances = measure_distances(vectors)
    low, usual, high = np.quantile(distances, (0.25, 0.5, 0.75))
    if usual <= 0:
        return []
    found = np.flatnonzero(distances > high + _FAR_OUT * (high - low))
    order = found[np.argsort(-distances[found], kind="stable")]
    return [Outlier(row, round(float(distances[row] / usual), 2)) for row in order.tolist()]


def measure_distances(vectors: np.ndarray) -> np.ndarray:
    """Each row's mean distance to its five nearest others: float64 [n]."""
    model = NearestNeighbors(n_neighbors=NEIGHBOURS, algorithm="brute")
    # Threads would add up in another order on another machine.
    with threadpoolctl.threadpool_limits(1):
        distances, _ = model.fit(vectors.astype(np.float64)).kneighbors()
    return distances.mean(axis=1)
