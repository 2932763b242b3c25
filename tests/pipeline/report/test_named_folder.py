import json
import shutil

import pytest
from ml_metadata.proto import metadata_store_pb2

from image_pipeline.components.errors import UserError
from image_pipeline.named_folder import find_latest_data_set, find_whole_run
from image_pipeline.report.page import write_report
from image_pipeline.report.training import describe_versions
from image_pipeline.run_config import read_config
from image_pipeline.tfx_metadata import open_metadata
from tests.pipeline.report.conftest import CONFIG

pytestmark = pytest.mark.beam


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
