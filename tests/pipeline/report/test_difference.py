import json
import shutil

import pytest

from image_pipeline.components.dataset.manifest import seal
from image_pipeline.components.json_text import flatten
from image_pipeline.named_folder import find_whole_run
from image_pipeline.report.difference import Differing, compare
from image_pipeline.run_config import find_options

pytestmark = pytest.mark.beam


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
