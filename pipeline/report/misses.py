"""Where a model for tags or values is wrong: the images that it is furthest from."""

import dataclasses

import numpy as np

from image_pipeline.components.tasks.signatures import LIKELY, PROBABILITIES, VALUE
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.model_answers import ask_model

_MOST_WORST = 12
_LEAST_PROBABILITY = 1e-7  # as Keras's cross entropy has it


@dataclasses.dataclass(frozen=True)
class TagMiss:
    """An image with a high loss.

    Attributes:
      row: row number in the index.
      missed: tags that it has but the model does not answer, with their probabilities.
      wrong: tags that the model answers but it has not, with theirs.
      loss: the mean cross entropy of all tags.
    """

    row: int
    missed: list[tuple[str, float]]
    wrong: list[tuple[str, float]]
    loss: float


@dataclasses.dataclass(frozen=True)
class ValueMiss:
    """An image's value, the model's, and how far that is off."""

    row: int
    value: float
    prediction: float
    error: float


@dataclasses.dataclass(frozen=True)
class Misses:
    """Where the model is wrong.

    Attributes:
      of: how many records the split has.
      records: how many were read.
      right: how many have just the tags that the model answers; None of values.
      worst: the images that it is furthest from, the worst first.
    """

    of: int
    records: int
    right: int | None
    worst: list[TagMiss] | list[ValueMiss]


def list_misses(data: DataSet, model_dir: str, names: list[str]) -> Misses:
    """Runs the model over records of the eval split.

    Args:
      data: the data set, with tags or values.
      model_dir: the SavedModel.
      names: the vocabulary of tags, in the order of their probabilities.

    Raises:
      UserError: if the data set has no eval split, or probabilities are not finite.
    """
    if data.values is not None:
        rows, answers, of = ask_model(data, model_dir, VALUE)
        return describe_values_off(rows, data.values[rows], answers, of)
    rows, probabilities, of = ask_model(data, model_dir, PROBABILITIES)
    true = [set(tags) for tags in data.tags.take(rows).to_pylist()]  # type: ignore[union-attr]
    has = np.array([[name in tags for name in names] for tags in true])
    return describe_tags_off(rows, has, probabilities, names, of)


def describe_values_off(
    rows: np.ndarray, values: np.ndarray, predicted: np.ndarray, of: int
) -> Misses:
    """The largest errors; one that is no number is larger than any.

    Args:
      rows: int64 [n], of the index.
      values: float64 [n].
      predicted: float32 [n].
      of: how many records the split has.
    """
    error = np.nan_to_num(np.abs(predicted - values), nan=np.inf, posinf=np.inf)
    worst = [
        ValueMiss(int(rows[n]), float(values[n]), float(predicted[n]), float(error[n]))
        for n in np.argsort(-error, kind="stable")[:_MOST_WORST].tolist()
    ]
    return Misses(of, len(rows), None, worst)


def describe_tags_off(
    rows: np.ndarray, has: np.ndarray, probabilities: np.ndarray, names: list[str], of: int
) -> Misses:
    """The images with the highest loss.

    Args:
      rows: int64 [n], of the index.
      has: bool [n, tags].
      probabilities: float32 [n, tags].
      names: of the tags, in the order of their ids.
      of: how many records the split has.
    """
    of_truth = np.where(has, probabilities, 1 - probabilities)
    loss = -np.log(np.maximum(of_truth, _LEAST_PROBABILITY)).mean(axis=1)
    is_wrong = has != (probabilities > LIKELY)
    worst = []
    for n in np.argsort(-loss, kind="stable")[:_MOST_WORST].tolist():
        off = [
            (names[c], float(probabilities[n, c]), has[n, c]) for c in np.flatnonzero(is_wrong[n])
        ]
        missed = [(name, share) for name, share, is_true in off if is_true]
        wrong = [(name, share) for name, share, is_true in off if not is_true]
        worst.append(TagMiss(int(rows[n]), missed, wrong, float(loss[n])))
    return Misses(of, len(rows), int((~is_wrong.any(axis=1)).sum()), worst)
