"""What the page of a run says where it was moved, or a file of it is damaged, gone or old."""

import json
import shutil

import pytest
from ml_metadata.proto import metadata_store_pb2

from image_pipeline.components.errors import UserError
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.named_folder import find_latest_data_set, find_whole_run
from image_pipeline.report.difference import describe_versions
from image_pipeline.report.notices import Notice
from image_pipeline.report.page import make_report, write_report
from image_pipeline.run_config import read_config
from image_pipeline.tfx_metadata import open_metadata
from tests.pipeline.report.conftest import CONFIG

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


def test_a_run_that_was_moved_is_found_where_it_is(run, run_dir, tmp_path):
    assert run.data_dir == f"{run_dir}/artifacts/ImageExampleGen/examples/1"
    assert run.artifact("pushed_model") is None
    copy = tmp_path / "moved"
    shutil.copytree(run_dir, copy)
    assert find_whole_run(f"{copy}/").data_dir.startswith(f"{copy}/artifacts/")


def test_the_latest_data_set_of_a_run_is_found_and_others_are_taken_as_they_are(run, run_dir):
    assert find_latest_data_set(str(run_dir)) == run.data_dir
    for folder in (run.data_dir, f"{run_dir}/nothing"):
        assert find_latest_data_set(folder) == folder


def test_a_run_that_ended_before_its_transform_graph_is_reported_by_its_data(run_dir, tmp_path):
    examples = "artifacts/ImageExampleGen/examples"
    shutil.copytree(f"{run_dir}/{examples}", tmp_path / examples)
    shutil.copy(f"{run_dir}/metadata.db", tmp_path)
    source = find_whole_run(f"{tmp_path}/")
    assert source.data_dir == f"{tmp_path}/{examples}/1"
    assert source.run and (source.graph_dir, source.summary) == (None, None)
    write_report(str(tmp_path), None, str(tmp_path / "report.html"))
    assert "is missing: the run did not finish" in (tmp_path / "report.html").read_text()


def test_the_options_are_those_of_the_training_that_made_the_model(run_dir, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    store = open_metadata(str(copy / "metadata.db"))
    (first,) = store.get_executions_by_type("tfx.components.trainer.component.Trainer")
    later = metadata_store_pb2.Execution(type_id=first.type_id)
    passed = json.loads(first.custom_properties["custom_config"].string_value)
    passed["training"]["seed"] = 99  # As of a run that was killed since.
    later.custom_properties["custom_config"].string_value = json.dumps(passed)
    (second,) = store.put_executions([later])
    del store
    summary = json.loads((copy / "summary.json").read_text())
    for number, seed in ((first.id, CONFIG.training.seed), (second, 99), (1234, 99)):
        summary["paths"]["model"] = f"/elsewhere/artifacts/Trainer/model/{number}"
        (copy / "summary.json").write_text(json.dumps(summary))
        assert read_config(find_whole_run(str(copy))).training.seed == seed


def test_the_options_are_the_runs_own(run):
    config = read_config(run)
    assert (config.feeding, config.training) == (CONFIG.feeding, CONFIG.training)
    versions = describe_versions(run, config)
    assert [name for name, _ in versions.options] == ["ingest", "view", "feeding", "training"]
    assert "batch_size: 4" in dict(versions.options)["feeding"]
    with pytest.raises(UserError) as caught:
        read_config(run, overrides=["feeding.batch_size=many"])
    assert "batch_size" in str(caught.value) and "was made with" not in str(caught.value)
    rows = dict(versions.rows)
    assert rows["report by"].startswith("image-pipeline ")
    assert rows["preprocessing_fn"].startswith("image_pipeline.components.transform.preprocessing.")
