"""Writes each record's answer while TFMA measures, so that no model is run over them again."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.parquetio import WriteToParquet
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.extractors import extractor

from image_pipeline.components.evaluation.answers import AnswerTable
from image_pipeline.components.evaluation.evaluation import BASELINE, CANDIDATE

_STAGE = "KeepAnswers"


@dataclasses.dataclass(frozen=True)
class Collection:
    """What is kept of each record's answer, and below which path, in any number of files."""

    table: AnswerTable
    path_prefix: str


_WANTED: contextvars.ContextVar[Collection | None] = contextvars.ContextVar("wanted", default=None)


@contextlib.contextmanager
def collect(wanted: Collection) -> Iterator[None]:
    """Has the extractors that are made within the block write answers.

    TFX tells those who make them neither where its outputs are nor of any options.
    """
    token = _WANTED.set(wanted)
    try:
        yield
    finally:
        _WANTED.reset(token)


def make_collectors() -> list[extractor.Extractor]:
    """The stage that writes answers, if it is wanted; it passes all records on."""
    wanted = _WANTED.get()
    return [] if wanted is None else [extractor.Extractor(_STAGE, _STAGE >> _KeepAnswers(wanted))]


class _KeepAnswers(beam.PTransform):
    def __init__(self, wanted: Collection):
        super().__init__()
        self._wanted = wanted

    def expand(self, extracts: beam.PCollection) -> beam.PCollection:
        _ = (
            extracts
            | "Describe" >> beam.Map(describe_record, self._wanted.table)
            | "Write"
            >> WriteToParquet(
                self._wanted.path_prefix, self._wanted.table.schema, file_name_suffix=".parquet"
            )
        )
        return extracts


def describe_record(extracts: dict[str, Any], table: AnswerTable) -> dict[str, Any]:
    """The row of a record, from what TFMA has extracted."""
    labels, predictions = extracts[constants.LABELS_KEY], extracts[constants.PREDICTIONS_KEY]
    earlier = None
    if isinstance(predictions, dict) and BASELINE in predictions:
        # Its ids are those of its own vocabulary, in which the class may be missing.
        earlier = labels[BASELINE], predictions[BASELINE]
        labels, predictions = labels[CANDIDATE], predictions[CANDIDATE]
    return table.make_row(extracts[constants.FEATURES_KEY], labels, predictions, earlier)
