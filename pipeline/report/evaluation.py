"""How good the model is, with confidence intervals, and where it is wrong."""

import dataclasses
from typing import Any

import numpy as np
from scipy import stats

from image_pipeline.components.tasks.signatures import PROBABILITIES
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.model_answers import MOST_RECORDS, ask_model

_MOST_WORST = 12
_MOST_CONFUSED = 12
# With more classes nobody can read the matrix; the list of confusions remains.
_MOST_IN_MATRIX = 25
_LEAST_PROBABILITY = 1e-7  # as Keras's cross entropy has it


def wilson_interval(right: int, total: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share, from counts (E. B. Wilson, JASA 22, 1927).

    Unlike the mean plus and minus two standard errors, it stays within 0 and 1, and is not a single
    point if all or none are right.
    """
    if total == 0:
        return 0.0, 1.0
    interval = stats.binomtest(right, total).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


@dataclasses.dataclass(frozen=True)
class ClassAccuracy:
    """The accuracy of a class in the eval split; of masks IoU and pixels, of tags F1 and images."""

    name: str
    records: int
    accuracy: float
    interval: tuple[float, float] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metrics:
    """What TFX's Evaluator measured over all records of the eval split.

    Attributes:
      records: how many.
      metrics: name to value.
      accuracy, interval: None where no record had a class. Of others than classes it is what
        `measure` says, and its interval is only known if the Evaluator estimated it.
      method: of the intervals: the Evaluator's own, if it estimated them, or Wilson's.
      blessed: whether the model was good enough.
      classes: the weakest first: by the lower bounds that the Evaluator estimated, or else by
        accuracy.
      measure: what `accuracy` is.
    """

    records: int
    metrics: dict[str, float]
    accuracy: float | None
    interval: tuple[float, float] | None
    method: str
    blessed: bool
    classes: list[ClassAccuracy]
    measure: str = "accuracy"


@dataclasses.dataclass(frozen=True)
class Confusion:
    """How many records with one label got another prediction."""

    label: str
    prediction: str
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Miss:
    """A record with a high loss.

    Attributes:
      row: row number in the index.
      label: its class.
      prediction: the model's.
      probability: probability of the prediction.
      label_probability: probability of the label.
      loss: the cross entropy.
    """

    row: int
    label: str
    prediction: str
    probability: float
    label_probability: float
    loss: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predictions:
    """Where the model is wrong.

    Attributes:
      of: how many records the split has.
      records: how many of known classes were read.
      unknown: how many of other classes.
      right: how many the model knows.
      matrix: int [label][prediction] in the order of `names`; None for many classes.
      names: names of the classes, sorted.
      confused: the most frequent wrong pairs.
      worst: the records with the highest loss, highest first.
    """

    of: int
    records: int
    unknown: int
    right: int
    matrix: list[list[int]] | None
    names: list[str]
    confused: list[Confusion]
    worst: list[Miss]


def describe_metrics(summary: dict[str, Any], eval_classes: dict[str, int]) -> Metrics:
    """What TFX's Evaluator measured, with intervals.

    Args:
      summary: the run's summary.
      eval_classes: records (of masks: pixels; of tags: images) of each class in the eval split.
    """
    evaluation = summary["evaluation"]
    overall = dict(evaluation["overall"])
    measure = evaluation.get("measure", "accuracy")
    guess = _interval if measure == "accuracy" else _no_interval
    records = round(overall.pop("records", 0))
    measured = evaluation.get("intervals") or {"overall": {}, "classes": {}}
    classes = [
        ClassAccuracy(
            name, count, accuracy, measured["classes"].get(name) or guess(accuracy, count)
        )
        for name, accuracy in evaluation["classes"].items()
        for count in [eval_classes.get(name, 0)]
    ]

    def weakest_first(row: ClassAccuracy) -> tuple[float, float, str]:
        estimated = measured["classes"].get(row.name)
        return estimated[0] if estimated else row.accuracy, row.accuracy, row.name

    accuracy = overall.get(measure)
    own = measured["overall"].get(measure)
    return Metrics(
        records=records,
        metrics=overall,
        accuracy=accuracy,
        interval=own or (None if accuracy is None else guess(accuracy, records)),
        method="jackknife" if own else "Wilson",
        blessed=summary["blessed"],
        classes=sorted(classes, key=weakest_first),
        measure=measure,
    )


def score_split(
    data: DataSet, model_dir: str, names: list[str], split: str = "eval", most: int = MOST_RECORDS
) -> Predictions:
    """Runs the model over records of a split; the arguments are those of `ask_model`.

    Args:
      data: the data set.
      model_dir: the SavedModel.
      names: the vocabulary, in the order of the probabilities.
      split: the split's name.
      most: how many records to read at most.
    """
    rows, probabilities, of = ask_model(data, model_dir, PROBABILITIES, split, most)
    number = {name: code for code, name in enumerate(names)}
    of_class = np.array([number.get(name, -1) for name in data.index.classes])
    labels = of_class[data.index.label[rows]]
    return describe_predictions(rows, labels, probabilities, names, of)


def describe_predictions(
    rows: np.ndarray, labels: np.ndarray, probabilities: np.ndarray, names: list[str], of: int
) -> Predictions:
    """Confusions and the records with the highest loss.

    Args:
      rows: int64 [n], of the index.
      labels: int [n], class ids, -1 for classes that the model does not know.
      probabilities: float32 [n, classes].
      names: of the classes, in the order of their ids.
      of: how many records the split has.
    """
    known = labels >= 0
    rows, labels, probabilities = rows[known], labels[known], probabilities[known]
    predicted = probabilities.argmax(axis=1)
    pairs = labels.astype(np.int64) * len(names) + predicted
    return Predictions(
        of=of,
        records=len(rows),
        unknown=int((~known).sum()),
        right=int((labels == predicted).sum()),
        matrix=_count_matrix(pairs, names) if len(names) <= _MOST_IN_MATRIX else None,
        names=sorted(names),
        confused=_list_confused(pairs, names),
        worst=_list_worst(rows, labels, predicted, probabilities, names),
    )


def _count_matrix(pairs: np.ndarray, names: list[str]) -> list[list[int]]:
    """Counts of `pairs`, as in `_list_confused`, by the sorted names."""
    classes = len(names)
    order = sorted(range(classes), key=lambda code: names[code])
    matrix = np.bincount(pairs, minlength=classes**2).reshape(classes, classes)
    return matrix[np.ix_(order, order)].tolist()


def _list_confused(pairs: np.ndarray, names: list[str]) -> list[Confusion]:
    """The most frequent confusions in `pairs`, int64 [n]: label · classes + prediction."""
    wrong = pairs[pairs // len(names) != pairs % len(names)]
    values, counts = np.unique(wrong, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_CONFUSED]
    return [
        Confusion(names[pair // len(names)], names[pair % len(names)], count)
        for pair, count in zip(values[order].tolist(), counts[order].tolist(), strict=True)
    ]


def _list_worst(
    rows: np.ndarray,
    labels: np.ndarray,
    predicted: np.ndarray,
    probabilities: np.ndarray,
    names: list[str],
) -> list[Miss]:
    of_label = probabilities[np.arange(len(labels)), labels]
    loss = -np.log(np.maximum(of_label, _LEAST_PROBABILITY))
    return [
        Miss(
            row=int(rows[n]),
            label=names[labels[n]],
            prediction=names[predicted[n]],
            probability=float(probabilities[n, predicted[n]]),
            label_probability=float(of_label[n]),
            loss=float(loss[n]),
        )
        for n in np.argsort(-loss, kind="stable")[:_MOST_WORST].tolist()
    ]


def _no_interval(accuracy: float, records: int) -> None:
    """Pixels or tags of an image are no separate trials: their number says nothing of chance."""


def _interval(accuracy: float, records: int) -> tuple[float, float]:
    # TFMA gives only the share, as float32; times the records it is a whole number.
    return wilson_interval(round(accuracy * records), records)
