"""What an evaluation found, written once: all that is shown of a model comes from this file."""

import csv
import functools
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import pydantic

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.metrics import IN_WORDS, Estimate, Metric
from image_pipeline.components.json_files import check_json, read_versioned, read_whole
from image_pipeline.components.json_text import seal, to_json

FACTS, VERSION = "facts.json", 1
MISLABELLED, OUTLIERS = "mislabelled.csv", "outliers.csv"
"""The files beside TFMA's."""
WAY_OUT = "run again from the Evaluator on"

RecordId = Annotated[str, pydantic.Field(pattern=r"\A[0-9a-f]{32}\z")]
_Count = pydantic.NonNegativeInt
_Confusion = Annotated[list[_Count], pydantic.Field(min_length=3, max_length=3)]
T = TypeVar("T")


class _Fact(pydantic.BaseModel):
    """JSON of just these keys."""

    model_config = pydantic.ConfigDict(frozen=True, strict=True, extra="forbid")


class Mistake(_Fact):
    """What is wrong with a class.

    Attributes:
      taken_for, share: of classes and masks, the other class that most of its wrong records or
        pixels are taken for, and the share of all its own that is.
      found: the share of its boxes that is found.
    """

    taken_for: str | None = None
    share: float | None = None
    found: float | None = None


class ClassFacts(_Fact):
    """A class or tag in the eval split.

    Attributes:
      records: how many it has there; of masks pixels, of boxes boxes.
      figure: the measure of this class alone, see `Metric.of_class`.
      precision, recall, F1: of classes and tags.
      mistake: None where nothing is wrong, or it was not measured.
    """

    name: str
    records: _Count
    figure: Estimate
    precision: Estimate | None = None
    recall: Estimate | None = None
    F1: Estimate | None = None
    mistake: Mistake | None = None


class Constant(_Fact):
    """The best answer that is always the same, and the measure of a model that gives it."""

    answer: str
    value: float


class Compared(_Fact):
    """Two classifiers over the same records; see `intervals.compare_answers`."""

    gained: Estimate
    only_new: _Count
    only_earlier: _Count
    p_value: float


class Slice(_Fact):
    """The records with one value of a column: the measure, and of classes the best constant's."""

    value: str
    records: _Count
    figure: Estimate
    constant: float | None = None


class Mislabelled(_Fact):
    """How many labels were judged, of how many, by models that give this share of them; doubted."""

    judged: _Count
    of: _Count
    agreed: float
    suspected: _Count


class Outliers(_Fact):
    """How many records were judged, of how many, and how many are unlike all others."""

    judged: _Count
    of: _Count
    found: _Count


class Bound(_Fact):
    """What models are judged by: an option and its value."""

    option: str
    threshold: float


class Failure(Bound):
    """A bound that the model missed; what was measured, None if no record was there to do so."""

    measure: str
    measured: float | None


class Bin(_Fact):
    """Predictions of one probability or a little less: their mean, and how many are right."""

    up_to: float
    records: _Count
    probability: float
    accuracy: float
    low: float
    high: float


class _Miss(_Fact):
    """A record that the model gets wrong."""

    record_id: RecordId
    filename: str


class ClassMiss(_Miss):
    """A record of high loss: what it is, and what it was taken for."""

    label: str
    prediction: str
    probability: float
    label_probability: float
    loss: float | None  # None for one without bounds.


class TagMiss(_Miss):
    """An image of high loss: tags that it lacks or wrongly got, with their probabilities."""

    missed: dict[str, float]
    wrong: dict[str, float]
    loss: float | None


class ValueMiss(_Miss):
    """An image whose value is far off."""

    value: float
    prediction: float | None


class ClassAnswers(_Fact):
    """Where a classifier is wrong.

    Attributes:
      names: of the classes, in the order of their ids.
      matrix: records by label and prediction; None of many classes.
      confusions: [label, prediction, records] of wrong pairs of ids, the most frequent first.
      calibration: how often it is right, by the probability that it gives.
      worst: records of the highest loss, highest first.
    """

    names: list[str]
    matrix: list[list[_Count]] | None
    confusions: list[_Confusion]
    calibration: list[Bin]
    worst: list[ClassMiss]

    @pydantic.model_validator(mode="after")
    def _check_ids(self) -> "ClassAnswers":
        count = len(self.names)
        if any(max(true, answered) >= count for true, answered, _ in self.confusions):
            raise ValueError("a confusion is of a class that has no name")
        if self.matrix is not None and [len(row) for row in self.matrix] != [count] * count:
            raise ValueError(f"its matrix is not one of {count} classes")
        return self


class TagAnswers(_Fact):
    """How many images have just the tags that the model answers, and the worst."""

    right: _Count
    worst: list[TagMiss]


class ValueAnswers(_Fact):
    """The images whose values are furthest off."""

    worst: list[ValueMiss]


def _tell_answers(value: Any) -> str:
    has = value.__contains__ if isinstance(value, Mapping) else functools.partial(hasattr, value)
    return "classes" if has("names") else "tags" if has("right") else "values"


Answers = Annotated[
    Annotated[ClassAnswers, pydantic.Tag("classes")]
    | Annotated[TagAnswers, pydantic.Tag("tags")]
    | Annotated[ValueAnswers, pydantic.Tag("values")],
    pydantic.Discriminator(_tell_answers),
]


class Evaluation(_Fact):
    """What is known of a model from the eval split; all intervals are of 95 %.

    Attributes:
      task: what it learned, see `tasks.choose_task`.
      measure: what such models are judged by, a key of `metrics.IN_WORDS`.
      bound: what was asked for; None if nothing was.
      failures: the bounds that it missed.
      metrics: all metrics, by the words for them.
      method: of the intervals: Wilson's, "bootstrap", or TFMA's "jackknife"; None without any.
      classes: the weakest first: by the lower end that TFMA estimated, or by the figure, for
        Wilson's lower ends are low where records are few. Last are those without a record there,
        whose figure has no value.
      constant: without a model.
      compared: with the latest model that was good enough.
      slices: by a column's name.
      mislabelled, outliers: None if they were not looked for.
      answers: record by record; None of masks and boxes.
    """

    version: int = VERSION
    task: str
    measure: str
    records: _Count
    blessed: bool
    bound: Bound | None = None
    failures: list[Failure] = []
    metrics: dict[str, Estimate]
    method: str | None = None
    classes: list[ClassFacts] = []
    constant: Constant | None = None
    compared: Compared | None = None
    slices: dict[str, list[Slice]] = {}
    mislabelled: Mislabelled | None = None
    outliers: Outliers | None = None
    answers: Answers | None = None

    @pydantic.field_validator("measure")
    @classmethod
    def _check_measure(cls, measure: str) -> str:
        if measure not in IN_WORDS:
            raise ValueError(f"known are {', '.join(IN_WORDS)}, not {measure!r}")
        return measure

    @property
    def metric(self) -> Metric:
        """What is known of `measure`."""
        return IN_WORDS[self.measure]

    @property
    def score(self) -> Estimate:
        """The one figure that models are judged by; without a value if no record has a class."""
        return self.metrics.get(self.measure, Estimate(None))


def write_evaluation(evaluation_dir: str, found: Evaluation) -> None:
    """Writes the facts beside what TFMA wrote."""
    content = to_json(seal_evaluation(found)).encode() + b"\n"
    files.write_file(files.join(evaluation_dir, FACTS), content)


def seal_evaluation(found: Evaluation) -> dict[str, Any]:
    """The facts with their checksum, as their file has them."""
    return seal(json.loads(to_json(found.model_dump())))


def read_evaluation(evaluation_dir: str) -> Evaluation:
    """Reads the facts.

    Raises:
      UserError: if they are damaged, or of another version than this one.
    """
    path = files.join(evaluation_dir, FACTS)
    try:
        return read_versioned(path, Evaluation, VERSION, WAY_OUT)
    except FileNotFoundError as error:
        raise UserError(
            f"{evaluation_dir!r} must have {FACTS}, which earlier versions did not write; "
            f"{WAY_OUT}."
        ) from error


class Unusual(pydantic.BaseModel, extra="allow"):
    """A row of a table of records that are worth a look."""

    filename: str
    split: str
    label: str
    record_id: RecordId


class Doubt(Unusual):
    """A record whose label is in doubt: what is likelier, and the probability of each."""

    likelier: str
    score: str
    likelier_score: str


class Outlier(Unusual):
    """A record that is so many times as far from the others as usual."""

    times: float


COLUMNS = ("filename", "split", "label", "likelier", "score", "likelier_score", "record_id")
"""Of `MISLABELLED`: a row for each record whose label is in doubt, the likeliest first."""
OUTLIER_COLUMNS = ("filename", "split", "label", "times", "record_id")
"""Of `OUTLIERS`: a row for each record that is unlike all others, the farthest first."""


def read_mislabelled(evaluation_dir: str) -> list[Doubt]:
    """The records whose label is in doubt, the likeliest to be wrong first; none if not sought.

    Raises:
      UserError: if the table is damaged.
    """
    return read_csv(files.join(evaluation_dir, MISLABELLED), Doubt)


def read_outliers(evaluation_dir: str) -> list[Outlier]:
    """The records that are unlike all others, the farthest first; as `read_mislabelled`."""
    return read_csv(files.join(evaluation_dir, OUTLIERS), Outlier)


# What spreadsheets take for a formula, by its first character, unless it is a number. A cell that
# looks as if it had been marked is marked once more, so that reading undoes it.
_FORMULA = re.compile(r"'*(?:[=@\t\r]|[+-](?![\d.]+\Z))")
_MARKED = re.compile(rf"\A'(?={_FORMULA.pattern})")


def write_csv(path: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table; text that a spreadsheet would compute gets a `'` in front, as its users do.

    Args:
      path: of the file, or its URI.
      columns: the names, in the first line.
      rows: a cell for each column.
    """
    table = io.StringIO(newline="")
    # By default Python does not quote a carriage return, and then reads it as the end of a row.
    writer = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(columns)
    for row in rows:
        is_marked = [isinstance(cell, str) and _FORMULA.match(cell) for cell in row]
        cells = zip(row, is_marked, strict=True)
        writer.writerow([f"'{cell}" if marked else cell for cell, marked in cells])
    files.write_file(path, table.getvalue().encode(errors="backslashreplace"))


def read_csv(path: str, kind: type[T]) -> list[T]:
    """Reads what `write_csv` wrote; no rows if there is no such file.

    Args:
      path: of the file.
      kind: what a row must be, of text by the names of columns.

    Raises:
      UserError: if it cannot be read, or holds something else.
    """
    try:
        content = read_whole(path, WAY_OUT)
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""), restkey="", restval="")
        cells = ({name: _MARKED.sub("", str(cell)) for name, cell in row.items()} for row in rows)
        return [check_json(row, kind) for row in cells]
    except FileNotFoundError:
        return []
    except (ValueError, csv.Error) as error:
        raise UserError(f"{path!r} is damaged ({error}); {WAY_OUT}.") from error
