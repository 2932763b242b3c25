import shutil

import pytest

from image_pipeline.components.json_text import to_json
from image_pipeline.named_folder import find_whole_run
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.figures import gather_figures
from image_pipeline.run_config import find_options

pytestmark = pytest.mark.beam


def test_all_of_a_run_is_gathered_for_machines(figures):
    to_json(figures)
    assert figures["kind"] == "run" and figures["evaluation"].score.value is not None
    assert figures["shuffle"].batch_size == 4
    assert figures["evaluation"].records == figures["books"]["splits"]["eval"]
    assert sorted(figures["absent"]) == ["difference", "licences", "speed"]
    assert figures["near_duplicates"].compared == 23 and figures["outliers"].by == "model"
    assert figures["rating"] == "bad" and figures["said"].startswith("Not told from guessing")
    assert figures["judged_labels"]["judged"] == 23
    assert figures["judged_labels"]["suspected"] == len(figures["mislabelled"])


def test_what_a_data_set_does_not_have_is_said(source, data):
    figures = gather_figures(source, data)
    missing = {"anomalies", "training", "evaluation", "difference", "speed", "history", "licences"}
    assert {name for name in missing if figures[name] is None} == missing
    assert figures["absent"].keys() == missing | {"verdict", "mislabelled"}
    assert figures["near_duplicates"].compared is None and figures["outliers"].by == "colours"
    assert "Only the report of a run" in figures["absent"]["training"]


def test_a_run_without_metadata_or_model_says_so(run_dir, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    (copy / "metadata.db").unlink()
    shutil.rmtree(copy / "artifacts/Trainer")
    shutil.rmtree(copy / "artifacts/Evaluator")
    source = find_whole_run(str(copy))
    data = open_data_set(source.data_dir, source.manifest)
    absent = gather_figures(source, data, find_options(source))["absent"]
    assert "metadata.db" in absent["options"] and "metadata.db" in absent["history"]
    assert "history.json is missing" in absent["training"]
    assert "must have facts.json" in absent["evaluation"]
