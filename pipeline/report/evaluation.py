"""How good the model is, with confidence intervals, and where it is wrong."""

import dataclasses
from typing import Any

import numpy as np

from image_pipeline.components.evaluation.intervals import wilson_interval
from image_pipeline.report.data_set import DataSet
from image_pipeline.show.evaluation_rows import say_mistake
from image_pipeline.show.metrics import IN_WORDS, Metric

_MOST_WORST = 12
_MOST_CONFUSED = 12
# With more classes nobody can read the matrix; the list of confusions remains.
_MOST_IN_MATRIX = 25


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
      bounds: the intervals of further figures, by their names.
      constant: the best answer that is always the same, and how good it is.
      compared: with the latest model that was good enough.
      slices: by a column's name, figures of its values' records.
      scores: precision, recall and F1 of each class.
      mistakes: of masks and boxes, by class, what is wrong with it, in words.
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
    bounds: dict[str, Any] = dataclasses.field(default_factory=dict)
    constant: dict[str, Any] | None = None
    compared: dict[str, Any] | None = None
    slices: dict[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)
    scores: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    mistakes: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def metric(self) -> Metric:
        """What is known of `measure`."""
        return IN_WORDS[self.measure]


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
      records: how many of known classes the split has.
      matrix: int [label][prediction] in the order of `names`; None for many classes.
      names: names of the classes, sorted.
      confused: the most frequent wrong pairs.
      worst: the records with the highest loss, highest first.
      calibration: see `components.evaluation.calibration.describe_bins`.
    """

    records: int
    matrix: list[list[int]] | None
    names: list[str]
    confused: list[Confusion]
    worst: list[Miss]
    calibration: list[dict[str, float]]


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
        # Wilson's lower bounds are low where records are few.
        is_estimated = measured.get("method", "jackknife") == "jackknife"
        estimated = measured["classes"].get(row.name) if is_estimated else None
        return estimated[0] if estimated else row.accuracy, row.accuracy, row.name

    accuracy = overall.get(measure)
    own = measured["overall"].get(measure)
    return Metrics(
        records=records,
        metrics=overall,
        accuracy=accuracy,
        interval=own or (None if accuracy is None else guess(accuracy, records)),
        method=measured.get("method", "jackknife" if own else "Wilson"),
        blessed=bool(summary.get("blessed")),
        classes=sorted(classes, key=weakest_first),
        measure=measure,
        bounds=measured["overall"],
        constant=evaluation.get("constant"),
        compared=evaluation.get("compared"),
        slices=evaluation.get("slices", {}),
        mistakes={name: say_mistake(each) for name, each in evaluation.get("mistakes", {}).items()},
        scores=evaluation.get("class_figures", []),
    )


def describe_predictions(own: dict[str, Any], data: DataSet) -> Predictions:
    """What evaluation found of each record's answer, by the names of its classes.

    Args:
      own: as `components.evaluation.figures.describe_model` describes it, of classes.
      data: the data set, in which the worst records are looked up.
    """
    names = own["names"]
    rows = data.find_ids([each["record_id"] for each in own["worst"][:_MOST_WORST]])
    return Predictions(
        records=own["records"],
        matrix=_sort_matrix(own["matrix"], names),
        names=sorted(names),
        confused=[Confusion(names[a], names[b], n) for a, b, n in own["confusions"]][
            :_MOST_CONFUSED
        ],
        worst=[
            Miss(
                row=rows[each["record_id"]],
                **{name: each[name] for name in ("label", "prediction", "probability")},
                label_probability=each["label_probability"],
                loss=each["loss"],
            )
            for each in own["worst"][:_MOST_WORST]
            if each["record_id"] in rows
        ],
        calibration=own["calibration"],
    )


def _sort_matrix(matrix: list[list[int]] | None, names: list[str]) -> list[list[int]] | None:
    """The matrix by the sorted names; None for many classes."""
    if matrix is None or len(names) > _MOST_IN_MATRIX:
        return None
    order = sorted(range(len(names)), key=lambda code: names[code])
    return np.array(matrix)[np.ix_(order, order)].tolist()


def _no_interval(accuracy: float, records: int) -> None:
    """Pixels or tags of an image are no separate trials: their number says nothing of chance."""


def _interval(accuracy: float, records: int) -> tuple[float, float]:
    # TFMA gives only the share, as float32; times the records it is a whole number.
    return wilson_interval(round(accuracy * records), records)
