"""What a trained model answers for a sample of the data set's records."""

import itertools

import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import map_in_order
from image_pipeline.report.data_set import DataSet

MOST_RECORDS = 5000
_BATCH = 128


def ask_model(
    data: DataSet, model_dir: str, answer: str, split: str = "eval", most: int = MOST_RECORDS
) -> tuple[np.ndarray, np.ndarray, int]:
    """Runs the model over records of a split, chosen by record id.

    Args:
      data: the data set.
      model_dir: the SavedModel.
      answer: which of its outputs for records, see `signatures`.
      split: the split's name.
      most: how many records to read at most.

    Returns:
      The records' rows, int64 [n]; the answers, float32 [n, …]; and how many records there are.

    Raises:
      UserError: if the data set has no such split.
    """
    from image_pipeline.components.evaluation.scoring import score_records

    if split not in data.splits:
        raise UserError(
            f"the split {split} must have records, but has none; give it a larger share of "
            "ingest.splits."
        )
    among = np.flatnonzero(data.split == data.splits.index(split))
    rows = data.choose_rows(most, among)
    records = map_in_order(data.records.read, rows.tolist(), data.threads, batch=8)
    serialized = iter(lambda: list(itertools.islice(records, _BATCH)), [])
    return rows, np.concatenate(list(score_records(model_dir, serialized, answer))), len(among)
