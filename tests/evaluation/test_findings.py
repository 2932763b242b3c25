import csv
import json

import pytest

from image_pipeline.components.dataset.record import Column
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.facts import COLUMNS, FACTS, OUTLIER_COLUMNS
from image_pipeline.components.labels.kinds import BOXES, MASKS
from image_pipeline.components.rules import check
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.rules import SLICES, find_types
from tests.pipeline.report.conftest import data_dir, images_dir, run, run_dir  # noqa: F401

pytestmark = pytest.mark.beam


def test_slices_are_columns_of_one_value():
    further = (Column("camera", "bytes"), Column("words", "bytes", is_list=True))
    types = find_types(further)
    assert (types["camera"], types["image/height"]) == ("bytes", "int64")
    for name in ("words", "lens"):
        with pytest.raises(UserError, match=f"names '{name}', not a column .*known: .*camera"):
            check(SLICES, evaluation=EvaluationOptions(slices=(name,)), columns=further)


def test_slices_that_could_not_be_made_are_refused_beforehand():
    with pytest.raises(ValueError, match="'image/format' twice"):
        EvaluationOptions(slices=("image/format", "image/format"))
    sliced = EvaluationOptions(slices=("image/format",))
    for labels in (MASKS, BOXES):
        check(SLICES, evaluation=EvaluationOptions(), labels=labels, columns=())
        message = f"slices works .*, but the labels of this run are {labels.name}, which"
        with pytest.raises(UserError, match=message):
            check(SLICES, evaluation=sliced, labels=labels, columns=())


def test_figures_answers_and_doubts_are_written(run):  # noqa: F811
    folder = run.artifact("evaluation")
    with open(f"{folder}/{FACTS}") as file:
        facts = json.load(file)
    assert facts["version"] == 1 and facts["records"] == run.manifest.splits["eval"].records
    # A model that gives each class one half sees nothing that tells them apart.
    assert facts["mislabelled"]["judged"] == facts["mislabelled"]["of"] == 23
    with open(f"{folder}/mislabelled.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == facts["mislabelled"]["suspected"]
    assert all(tuple(row) == COLUMNS and row["label"] != row["likelier"] for row in rows)
    # Nor is any of them unlike the others.
    assert facts["outliers"] == {"judged": 23, "of": 23, "found": 0}
    with open(f"{folder}/outliers.csv") as file:
        assert tuple(csv.DictReader(file).fieldnames) == OUTLIER_COLUMNS
