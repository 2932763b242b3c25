import json
import shutil

import pytest

from image_pipeline.components.dataset.manifest import seal
from image_pipeline.components.json_text import flatten, to_json
from image_pipeline.components.training.history import History, InputWait
from image_pipeline.named_folder import find_whole_run
from image_pipeline.report.charts import draw_curves
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.difference import Differing, SplitAnomalies, compare, read_anomalies
from image_pipeline.report.figures import gather_figures
from image_pipeline.run_config import find_options
from tests.pipeline.report.conftest import HISTORY

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


@pytest.mark.wide
def test_two_runs_are_compared(run, source):
    config = find_options(run)
    groups = {group.name: group for group in compare(run, config, source).groups}
    options = {row.name: row for row in groups["options"].rows}
    near = options["ingest.near_duplicates"]
    assert near == Differing("ingest.near_duplicates", 4, None)
    assert options["feeding.batch_size"].before is None
    metrics = {row.name: row.now for row in groups["metrics"].rows}
    assert 0 < metrics["evaluation.accuracy"] < 1
    assert compare(run, config, source).against == source.folder
    assert all(group.rows == [] for group in compare(run, config, run).groups)


def test_numbers_have_a_change(source, data_dir, tmp_path):
    copy = tmp_path / "data"
    shutil.copytree(data_dir, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["found"] -= 3
    (copy / "manifest.json").write_text(json.dumps(seal(manifest)))
    before = find_whole_run(str(copy))
    counts = compare(source, None, before).groups[0]
    assert counts.rows == [Differing("found", 24, 27, 3)]


def test_an_evaluation_that_cannot_be_read_is_told_beside_the_other(run, figures, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run.folder, copy)
    (copy / "artifacts/Evaluator/evaluation/6/facts.json").write_bytes(b"")
    metrics = compare(run, None, find_whole_run(str(copy))).groups[3]
    rows = {row.name: (row.before, row.now) for row in metrics.rows}
    assert "facts.json' is damaged (Expecting value" in rows["evaluation"][0]
    accuracy = figures["evaluation"].score.value
    assert rows["evaluation"][1] is None and rows["evaluation.accuracy"] == (None, accuracy)


def test_nested_facts_become_flat_ones():
    nested = {"a": {"b": 1, "c": [2]}, "d": {}, "e": None}
    assert flatten(nested) == {"a.b": 1, "a.c": [2], "d": {}, "e": None}
    assert flatten({"train": {"cat": 1}}, " / ") == {"train / cat": 1}


def test_training_and_its_best_epochs(run):
    training = run.read_history()
    assert (training.epochs, training.steps, training.seconds) == (3, 12, 4.0)
    loss, accuracy = training.curves
    assert (loss.name, loss.train, loss.eval) == (*("loss", HISTORY["loss"], HISTORY["val_loss"]),)
    assert (loss.best_epoch, accuracy.best_epoch) == (2, 2)
    assert (training.started_from, training.best_epoch) == ("training.weights=mine.weights.h5", 1)
    alone = History(metrics={"loss": [1.0]}, steps_per_epoch=1, seconds_per_epoch=[1.0])
    assert alone.curves[0].best_epoch is None
    assert alone.input_wait is None
    assert alone.started_from is alone.best_epoch is None


def test_values_that_are_no_numbers_are_passed_over():
    history = History(
        metrics={"loss": [None, 2.0, 1.0], "val_loss": [None, 0.5, None], "auc": [None, None]},
        steps_per_epoch=1,
        seconds_per_epoch=[1.0, 1.0, 1.0],
    )
    loss, auc = history.curves
    assert (loss.best_epoch, auc.best_epoch) == (2, None)
    assert "0.5 to 2" in draw_curves("loss", loss.train, loss.eval)
    assert draw_curves("auc", auc.train, auc.eval) == "<p>No value of auc is a number.</p>"


def test_waiting_for_input_is_told_as_a_share_of_the_loop(run):
    wait = run.read_history().input_wait
    assert wait == InputWait(share=0.375 / 2.5, worst_share=0.25, worst_epoch=3)


def test_anomalies_are_tfdvs_words(run):
    assert read_anomalies(run.artifact("anomalies")) == [
        SplitAnomalies(
            "eval",
            [
                (
                    "image/class/text",
                    "Unexpected string values: Examples contain values missing from the schema: "
                    "emu.",
                )
            ],
        ),
        SplitAnomalies("train", []),
    ]
