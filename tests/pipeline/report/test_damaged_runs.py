"""What the page of a run says where a file of the run is damaged, gone or of another version."""

import json
import shutil

import pytest

from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.named_folder import find_whole_run
from image_pipeline.report.notices import Notice
from image_pipeline.report.page import make_report

pytestmark = pytest.mark.beam

FACTS = "artifacts/Evaluator/evaluation/6/facts.json"
HISTORY = "artifacts/Trainer/model_run/5/history.json"
GRAPH = "artifacts/ImageTransform/graph/2/analysis.json"
MISFITS = "artifacts/ExampleValidator/anomalies/7/Split-eval/SchemaDiff.pb"
DAMAGED, AGAIN = "is damaged (", "; run again from the {} on."


@pytest.mark.parametrize(
    ("path", "content", "section", "words"),
    [
        (FACTS, b"", "verdict", (f"facts.json' {DAMAGED}Expecting", AGAIN.format("Evaluator"))),
        (FACTS, b'{"version": 9}', "verdict", ("must be of version 1, got 9",)),
        (FACTS, None, "verdict", ("must have facts.json, which earlier versions did not write",)),
        (HISTORY, b"{", "training", (f"history.json' {DAMAGED}", AGAIN.format("Trainer"))),
        (HISTORY, None, "training", ("The run's history.json is missing",)),
        (GRAPH, b"{}", "views", (f"analysis.json' {DAMAGED}its view: Field required",)),
        (MISFITS, b"\xff\xff", "anomalies", (f"SchemaDiff.pb' {DAMAGED}",)),
        ("doctor.json", b"", "speed", (f"doctor.json' {DAMAGED}", "doctor` again")),
        ("doctor.json", b"{}", "speed", ("doctor.json' must be of version 1, got None",)),
        ("metadata.db", b"", "options", ("The run's options are not known", "it is empty")),
    ],
)
def test_it_costs_what_the_file_says_and_nothing_else(
    run_dir, tmp_path, figures, path, content, section, words
):
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    if content is None:
        (copy / path).unlink()
    else:
        (copy / path).write_bytes(content)
    found, page = make_report(str(copy))
    assert all(each in found["absent"][section] for each in words), found["absent"][section]
    assert found["books"] == figures["books"] and found["classes"] == figures["classes"]
    assert b"Every file is accounted for" in page
    kept = {FACTS: "training"}.get(path, "evaluation")
    assert found[kept] == figures[kept] is not None


def test_labels_in_doubt_whose_table_is_gone_are_not_said_to_be_none(run_dir, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    facts = json.loads((copy / FACTS).read_text())
    facts["mislabelled"] = {"judged": 9, "of": 23, "agreed": 0.9, "suspected": 4}
    (copy / FACTS).write_text(to_sealed_json(facts))
    (copy / FACTS).with_name("mislabelled.csv").unlink(missing_ok=True)
    found, page = make_report(str(copy))
    assert found["absent"]["mislabelled"] == "mislabelled.csv names none of these records."
    assert b"None of the 9 labels" not in page
    (copy / FACTS).with_name("mislabelled.csv").write_text("label\nx\n")
    assert "mislabelled.csv' is damaged" in make_report(str(copy))[0]["absent"]["mislabelled"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "is missing: the run did not finish, or it was lost"),
        ("", "summary.json' is damaged (Expecting value: line 1 column 1 (char 0))"),
        ('{"statistics": {"mean": [{}]}}', "statistics.mean.0: Input should be a valid number"),
        ('{"paths": {}}', "must name examples and transform_graph, but does not"),
    ],
)
def test_without_a_summary_it_says_so_and_shows_the_data(run_dir, tmp_path, content, says):
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    shutil.move(copy / "artifacts/ImageTransform/graph", copy / "artifacts/transform_graph")
    (copy / "summary.json").unlink()
    if content is not None:
        (copy / "summary.json").write_text(content)
    source = find_whole_run(str(copy))
    assert says in source.trouble and source.data_dir.endswith("/examples/1")
    found, _ = make_report(str(copy))
    assert found["notices"][0] == Notice("history", source.trouble)
    reason = "The run has no evaluation; run again from the Evaluator on."
    assert reason == found["absent"]["verdict"]
