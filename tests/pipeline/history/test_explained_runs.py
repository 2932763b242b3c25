"""A day with it: what runs say of what they reused, and what `history` says of them afterwards."""

import json
import os

import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.config import load_config
from image_pipeline.run.run_plan import Part, plan_run
from tests.drawings import draw, encode_png, write_folder

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

SMALL = ("view.height_px=8", "view.width_px=8", "ingest.max_bad_fraction=0.2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the steps of five runs said, and the folder."""
    from image_pipeline.run.local import run_locally

    folder = tmp_path_factory.mktemp("history")
    images = write_folder(folder / "images", per_class=12)
    (images / "cat" / "broken.png").write_bytes(encode_png(draw(99))[:40])

    def run(*overrides):
        config = load_config(None, [*SMALL, *overrides])
        part = Part(None, "ImageTransform")
        plan, _ = plan_run(config, str(images), str(folder / "out"), (), part=part)
        os.makedirs(folder / "out", exist_ok=True)
        found = run_locally(plan, lambda name: None, lambda run: None)
        return {each.name: each.why for each in found}

    told = [run(), run()]
    (images / "dog" / "new.png").write_bytes(encode_png(draw(77)))
    told.append(run())
    (images / "dog" / "new.png").unlink()
    (images / "cat" / "broken.png").write_bytes(encode_png(draw(99)))
    told.append(run())
    told.append(run("view.height_px=10"))
    return folder / "out", told


def _history(out, *flags):
    done = CliRunner().invoke(cli, ["history", str(out), *flags])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_first_run_gives_no_reasons(runs):
    assert set(runs[1][0].values()) == {""}


def test_a_run_of_the_same_reuses_all(runs):
    assert set(runs[1][1]) == {"ImageExampleGen", "ImageTransform"}
    for why in runs[1][1].values():
        assert pytest.approx(len(why)) == len("reused, made 2026-11-24 16:15")
        assert why.startswith("reused, made 20")


def test_a_new_image_is_counted_and_what_follows_is_made_anew(runs):
    assert runs[1][2] == {
        "ImageExampleGen": "made again: the images changed: 1 new",
        "ImageTransform": "made again: its examples changed",
    }


def test_a_deleted_and_a_repaired_image_are_counted(runs):
    assert runs[1][3]["ImageExampleGen"] == "made again: the images changed: 1 repaired, 1 gone"


def test_a_changed_option_is_named_and_the_rest_is_reused(runs):
    assert runs[1][4]["ImageTransform"] == "made again: view.height_px 8 → 10"
    assert runs[1][4]["ImageExampleGen"].startswith("reused, made 20")


def test_history_lists_them_the_latest_first(runs):
    found = json.loads(_history(runs[0], "--json"))
    told = found["runs"]
    assert found["version"] == 1
    assert [run["run"] for run in told] == [5, 4, 3, 2, 1]
    states = [[step["state"] for step in run["steps"]] for run in told]
    assert states == [["reused", "made"], ["made"] * 2, ["made"] * 2, ["reused"] * 2, ["made"] * 2]
    assert told[0]["changes"] == ["view.height_px 8 → 10"]
    assert [step["made_in_run"] for step in told[0]["steps"]] == [4, 5]
    assert [step["made_in_run"] for step in told[3]["steps"]] == [1, 1]


def test_history_is_text_for_people_and_needs_no_right_to_write(runs):
    out, _ = runs
    lines = _history(out).splitlines()
    assert lines[0].startswith("run 5, 20")
    assert lines[1:4] == [
        "  changed           view.height_px 8 → 10",
        "  ImageExampleGen   reused from run 4",
        "  ImageTransform    made again: view.height_px 8 → 10",
    ]
    before = (out / "metadata.db").stat().st_mtime_ns
    _history(out)
    assert (out / "metadata.db").stat().st_mtime_ns == before


def test_a_folder_without_runs_is_refused(tmp_path):
    done = CliRunner().invoke(cli, ["history", str(tmp_path)])
    assert "must be the local output folder of `image-pipeline run`" in str(done.exception)


def test_a_run_whose_evaluation_is_damaged_is_shown_beside_the_others(tmp_path):
    from image_pipeline.components.evaluation.facts import write_evaluation
    from image_pipeline.history.past_runs import Artifact, PastRun, Step
    from image_pipeline.run_folder import RunFolder
    from image_pipeline.show.history import describe_runs, history_lines
    from tests.evaluation.found import FOUND

    past = []
    for number in (1, 2, 3):
        folder = f"{tmp_path}/artifacts/Evaluator/evaluation/{number}"
        write_evaluation(folder, FOUND)
        found = {"evaluation": (Artifact(number, folder, {}),)}
        step = Step(number, "Evaluator", "made", 0, 0, {}, {}, found, number)
        past.append(PastRun(number, "p", (step,)))
    (tmp_path / "artifacts/Evaluator/evaluation/2/facts.json").write_bytes(b"")
    (tmp_path / "artifacts/Evaluator/evaluation/1/facts.json").unlink()
    latest, damaged, early = described = describe_runs(RunFolder(str(tmp_path)), past)
    score = {"measure": "accuracy", "value": 0.75, "low": 0.41, "high": 0.93}
    assert (latest["score"], damaged["score"], early["score"]) == (score, None, None)
    models = [line.split()[1:] for line in history_lines(described) if " model " in line]
    assert [" ".join(words[:2]) for words in models] == ["accuracy 0.750", *["no score,"] * 2]
    assert "facts.json' is damaged (Expecting value" in damaged["no_score"]
    assert "which earlier versions did not write" in early["no_score"]
    assert "run again from the Evaluator on." in " ".join(models[1])


def test_a_damaged_data_set_is_said_of_the_step_that_was_compared_with_it(runs):
    first = min(
        (runs[0] / "artifacts/ImageExampleGen/examples").iterdir(), key=lambda p: int(p.name)
    )
    index = first / "index.parquet"
    whole = index.read_bytes()
    try:
        index.write_bytes(b"")
        lines = [line for line in _history(runs[0]).splitlines() if "the images changed" in line]
    finally:
        index.write_bytes(whole)
    assert lines[0] == "  ImageExampleGen   made again: the images changed: 1 repaired, 1 gone"
    assert "index.parquet' was changed since ingest wrote it" in lines[1] and len(lines) == 2
