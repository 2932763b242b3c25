"""What evaluation does with each record besides what TFX's Evaluator does.

The Evaluator calls `custom_extractors` by the dotted path of this module.
"""

from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.parquetio import WriteToParquet
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api import model_eval_lib
from tensorflow_model_analysis.extractors import extractor, slice_key_extractor

from image_pipeline.components import progress
from image_pipeline.components.arrays.in_place import refers
from image_pipeline.components.dataset import record
from image_pipeline.components.evaluation.answers import AnswerTable, find_wanted
from image_pipeline.components.evaluation.embedding import fetch_record
from image_pipeline.components.evaluation.evaluation import BASELINE, CANDIDATE
from image_pipeline.components.training.non_finite import check_probabilities


def custom_extractors(**arguments: Any) -> list[extractor.Extractor]:
    """The Evaluator's default extractors, between stages of this project's own.

    Records of a class that the model does not know are left out of all metrics, and a model that
    gives no finite probability is refused.

    Returns:
      The extractors; for the remaining records they extract what they do by default.
    """

    def stage(name: str, transform: beam.PTransform) -> extractor.Extractor:
        return extractor.Extractor(name, name >> transform)

    own = model_eval_lib.default_extractors(**arguments)
    # Metrics use this stage's output, whatever follows it; before it, records are not batched.
    names = [each.stage_name for each in own]
    last = names.index(slice_key_extractor.SLICE_KEY_EXTRACTOR_STAGE_NAME)
    wanted = find_wanted()
    return [
        stage("CountRecords", beam.Map(count_records)),
        stage("FetchImages", beam.Map(fetch_images)),
        *own[:last],
        stage("LeaveOutUnknown", beam.Filter(has_class)),
        stage("CheckFinite", beam.Map(check_finite)),
        *([] if wanted is None else [stage("KeepAnswers", _KeepAnswers(wanted))]),
        *own[last:],
    ]


def count_records(extracts: dict[str, Any]) -> dict[str, Any]:
    """Counts the records of a batch as progress, and passes it on."""
    batch = extracts.get(constants.ARROW_RECORD_BATCH_KEY)
    progress.advance(1 if batch is None else batch.num_rows)
    return extracts


def fetch_images(extracts: dict[str, Any]) -> dict[str, Any]:
    """Passes a batch on with the images of records that hold only where they are.

    Raises:
      UserError: if the file that has them is gone, or was changed.
    """
    batch = extracts[constants.ARROW_RECORD_BATCH_KEY]
    place = batch.schema.get_field_index(constants.ARROW_INPUT_COLUMN)
    records = batch.column(place).to_pylist()
    if not any(refers(each) for (each,) in records):
        return extracts
    fetched = pa.array([[fetch_record(each)] for (each,) in records], batch.column(place).type)
    changed = batch.set_column(place, batch.schema.field(place), fetched)
    return extracts | {constants.ARROW_RECORD_BATCH_KEY: changed}


def has_class(extracts: dict[str, Any]) -> bool:
    """Whether the model knows the class of a record; only ids can be unknown."""
    labels = np.asarray(_of_candidate(extracts[constants.LABELS_KEY]))
    return labels.dtype.kind == "f" or bool(np.all(labels >= 0))


def check_finite(extracts: dict[str, Any]) -> dict[str, Any]:
    """Passes a record on whose answers are finite; NaN would be taken for the first class.

    Raises:
      UserError: if they are not.
    """
    name = np.ravel(extracts[constants.FEATURES_KEY][record.FILENAME])[0].decode(errors="replace")
    answers = _of_candidate(extracts[constants.PREDICTIONS_KEY])
    for values in answers.values() if isinstance(answers, dict) else [answers]:
        check_probabilities(values, f"the eval split's {name}")
    return extracts


def _of_candidate(values: Any) -> Any:
    """The candidate's values, if another model is measured with it."""
    return values[CANDIDATE] if isinstance(values, dict) and CANDIDATE in values else values


@beam.ptransform_fn
def _KeepAnswers(extracts: beam.PCollection, table: AnswerTable) -> beam.PCollection:
    """Writes answers while TFMA measures, so that no model is run over records again."""
    write = WriteToParquet(table.path_prefix, table.schema, file_name_suffix=".parquet")
    _ = extracts | "Describe" >> beam.Map(describe_record, table) | "Write" >> write
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
