"""Counts evaluation's records while TFX's Evaluator, a Beam job of its own, runs the model on them.

The Evaluator calls `custom_extractors` by the dotted path of this module.
"""

from typing import Any

import apache_beam as beam
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api import model_eval_lib
from tensorflow_model_analysis.extractors import extractor

from components import progress


def custom_extractors(**arguments: Any) -> list[extractor.Extractor]:
    """What the Evaluator does with records by default, behind a stage that counts them.

    Args:
      **arguments: the model, the configuration and the tensor adapter, as TFX passes them.

    Returns:
      The extractors; what they extract is what it is without this stage.
    """
    count = extractor.Extractor("CountRecords", "CountRecords" >> beam.Map(count_records))
    return [count, *model_eval_lib.default_extractors(**arguments)]


def count_records(extracts: dict[str, Any]) -> dict[str, Any]:
    """Counts the records of a batch, and passes it on."""
    batch = extracts.get(constants.ARROW_RECORD_BATCH_KEY)
    progress.advance(1 if batch is None else batch.num_rows)
    return extracts
