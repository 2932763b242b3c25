"""What a model answers for a record: a row of the table from which all further metrics are made.

A row keeps what these metrics need, not the probabilities of all classes: a million records take
some 100 MB, however many classes there are.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from image_pipeline.components.dataset import record
from image_pipeline.components.names import decode_name
from image_pipeline.components.tasks.signatures import LIKELY

ANSWERS = "answers.parquet"
"""The file beside TFMA's."""
LEAST_PROBABILITY = 1e-7  # as Keras's cross entropy has it

ID, NAME = "record_id", "filename"
# Of classes: ids, the likeliest class's probability and the true one's.
LABEL, PREDICTION = "label", "prediction"
PROBABILITY, LABEL_PROBABILITY = "probability", "label_probability"
# Whether the earlier model is right; null if there is none.
BASELINE_RIGHT = "baseline_right"
# Of tags: the ids of the true ones and of those answered, each with its probability, and the mean
# cross entropy. Of values: what is true, and what is answered.
TAGS, ANSWERED, LOSS = "tags", "answered", "loss"
TAG_PROBABILITIES, ANSWERED_PROBABILITIES = "tag_probabilities", "answered_probabilities"
VALUE = "value"
# The earlier model's: of tags, how many right ones, answered and true ones it has (it may know
# others); of values, its answer. Null if there is none.
BASELINE_COUNTS, BASELINE_PREDICTION = "baseline_counts", "baseline_prediction"

_IDENTITY = [pa.field(ID, pa.string()), pa.field(NAME, pa.string())]
_OF_TASK = {
    "classification": [
        *(pa.field(LABEL, pa.int32()), pa.field(PREDICTION, pa.int32())),
        *(pa.field(PROBABILITY, pa.float32()), pa.field(LABEL_PROBABILITY, pa.float32())),
        pa.field(BASELINE_RIGHT, pa.bool_()),
    ],
    "tagging": [
        *(pa.field(TAGS, pa.list_(pa.int32())), pa.field(ANSWERED, pa.list_(pa.int32()))),
        *(
            pa.field(name, pa.list_(pa.float32()))
            for name in (TAG_PROBABILITIES, ANSWERED_PROBABILITIES)
        ),
        *(pa.field(LOSS, pa.float32()), pa.field(BASELINE_COUNTS, pa.list_(pa.int32()))),
    ],
    "regression": [
        *(pa.field(VALUE, pa.float32()), pa.field(PREDICTION, pa.float32())),
        pa.field(BASELINE_PREDICTION, pa.float32()),
    ],
}
_SLICE = "slice:"  # begins the names of columns by which records are sliced


@dataclasses.dataclass(frozen=True)
class AnswerTable:
    """How the rows of a task's answers look.

    Attributes:
      task: its name; those of masks and boxes have no such table.
      slices: features of the records by which metrics are sliced, and the type of each.
      path_prefix: how the paths of the files begin that workers write rows to.
    """

    task: str
    slices: tuple[tuple[str, record.Dtype], ...] = ()
    path_prefix: str = ""

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        types = {"bytes": pa.string(), "int64": pa.int64(), "float32": pa.float32()}
        further = [pa.field(f"{_SLICE}{name}", types[dtype]) for name, dtype in self.slices]
        return pa.schema([*_IDENTITY, *_OF_TASK[self.task], *further])

    def make_row(
        self,
        features: Mapping[str, Any],
        true: Any,
        answer: np.ndarray,
        earlier: tuple[Any, np.ndarray] | None,
    ) -> dict[str, Any]:
        """A record's row.

        Args:
          features: the record's, by their keys; each an array of its values.
          true: its truth: a class's id, tags as 0 and 1, or a number.
          answer: the model's: probabilities, or a number.
          earlier: the truth as the earlier model has it, whose vocabulary is its own, and its
            answer; None if there is none.
        """
        own = {
            "classification": lambda: describe_class(
                _take_first(true),
                answer,
                earlier and int(np.argmax(earlier[1])) == _take_first(earlier[0]),
            ),
            "tagging": lambda: {
                **describe_tags(np.ravel(true) > 0, np.ravel(answer)),
                BASELINE_COUNTS: earlier and count_tags(*earlier).sum(axis=1).tolist(),
            },
            "regression": lambda: {
                VALUE: _take_first(true),
                PREDICTION: _take_first(answer),
                BASELINE_PREDICTION: earlier and _take_first(earlier[1]),
            },
        }[self.task]()
        sliced = {f"{_SLICE}{name}": _take_first(features.get(name)) for name, _ in self.slices}
        identity = {
            ID: _take_first(features[record.SOURCE_ID]),
            NAME: _take_first(features[record.FILENAME]),
        }
        return identity | own | sliced


# Here, since TFX loads the module of the extractors again whenever it makes them.
_wanted: contextvars.ContextVar[AnswerTable | None] = contextvars.ContextVar("wanted", default=None)


@contextlib.contextmanager
def collect(table: AnswerTable) -> Iterator[None]:
    """Has the extractors that are made within the block write a table's rows.

    TFX tells those who make them neither where its outputs are nor of any options.
    """
    token = _wanted.set(table)
    try:
        yield
    finally:
        _wanted.reset(token)


def find_wanted() -> AnswerTable | None:
    """The table whose rows are wanted; None outside of `collect`."""
    return _wanted.get()


def name_slice(name: str) -> str:
    """The column that holds a feature by which records are sliced."""
    return f"{_SLICE}{name}"


def describe_class(
    label: int, probabilities: np.ndarray, was_right: bool | None = None
) -> dict[str, Any]:
    """What is kept of a record's class and the probabilities of all, float [classes]."""
    row = np.ravel(probabilities)
    prediction = int(row.argmax())
    return {
        **{LABEL: label, PREDICTION: prediction},
        **{PROBABILITY: float(row[prediction]), LABEL_PROBABILITY: float(row[label])},
        BASELINE_RIGHT: was_right,
    }


def describe_tags(is_true: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """What is kept of an image's tags, bool [tags], and their probabilities, float [tags]."""
    of_truth = np.where(is_true, probabilities, 1 - probabilities)
    loss = -np.log(np.maximum(of_truth.astype(np.float64), LEAST_PROBABILITY)).mean()
    is_answered = probabilities > LIKELY
    return {
        TAGS: np.flatnonzero(is_true).tolist(),
        TAG_PROBABILITIES: probabilities[is_true].tolist(),
        ANSWERED: np.flatnonzero(is_answered).tolist(),
        ANSWERED_PROBABILITIES: probabilities[is_answered].tolist(),
        LOSS: float(loss),
    }


def count_tags(true: Any, predicted: np.ndarray) -> np.ndarray:
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


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, in the order of the records' ids: workers write them in any."""
    joined = pa.concat_tables(tables)
    return joined.sort_by([(ID, "ascending"), (NAME, "ascending")])


def _take_first(values: Any) -> Any:
    if values is None or not np.size(values):
        return None
    first = np.ravel(values)[0]
    if isinstance(first, bytes):
        return decode_name(first)
    return first.item() if isinstance(first, np.generic) else first
