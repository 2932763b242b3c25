"""The figure that a model was judged by, kept for each evaluation: reading TFMA's takes seconds."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.json_files import read_json
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.run_folder import RunFolder
from image_pipeline.show.evaluation_rows import find_interval


@dataclasses.dataclass(frozen=True)
class Score:
    """What a figure is called, its value, and its 95 % interval, if it is known."""

    measure: str
    value: float | None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Checks that an interval has two ends."""
        if (self.low is None) != (self.high is None):
            raise ValueError(f"one end of its interval is missing, got {self.low} to {self.high}")


def keep_score(folder: RunFolder, summary: Mapping[str, Any]) -> None:
    """Writes the score of a run that evaluated a model."""
    evaluation, evaluation_dir = summary.get("evaluation"), summary["paths"].get("evaluation")
    if evaluation is None or evaluation_dir is None:
        return
    low, high = find_interval(evaluation) or (None, None)
    score = Score(evaluation["measure"], evaluation.get("score"), low, high)
    path = folder.score_path(evaluation_dir)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.write_file(path, to_sealed_json(dataclasses.asdict(score)).encode())


def read_score(folder: RunFolder, evaluation_dir: str) -> Score | None:
    """The score of an evaluation; None of runs of earlier versions.

    Raises:
      UserError: if it is damaged.
    """
    try:
        return read_json(
            folder.score_path(evaluation_dir), Score, "delete it to see the other runs"
        )
    except FileNotFoundError:
        return None
