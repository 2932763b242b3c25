"""Whole runs of a person's own model: with intervals, and with a class that training lacks."""

import io
import json
import pathlib

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from image_pipeline.cli import cli
from image_pipeline.components.json_text import seal
from image_pipeline.show.summary import print_summary
from tests.drawings import encode_png

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

# The class emu is in eval only, so its records have no id.
COUNTS = {"train": {"red": 30, "green": 30}, "eval": {"red": 20, "green": 24, "emu": 6}}
CONFIG = r"""
ingest: {prepare: {encoding: png}, split_pattern: "^(?P<split>[^/]+)/",
  label_pattern: "^[^/]+/(?P<label>[^/]+)/"}
view: {height_px: 8, width_px: 8}
feeding: {batch_size: 8, augment: []}
training: {model: tests.training.wrong_models.logits, epochs: 2}
evaluation: {min_accuracy: 0.3, confidence_intervals: true, min_improvement: -1.0}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    generator = np.random.default_rng(0)
    for split, counts in COUNTS.items():
        for name, count in counts.items():
            (folder / "images" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = generator.integers(0, 100, (8, 8, 3), np.uint8)
                pixels[..., 0 if name == "red" else 1] += 9
                path = folder / "images" / split / name / f"{number:02d}.png"
                path.write_bytes(encode_png(pixels))
    (folder / "config.yaml").write_text(CONFIG)
    return folder


def run(folder, *arguments, code=0):
    places = ("--images", folder / "images", "--output", folder / "out")
    command = ["run", *places, "--config", folder / "config.yaml", *arguments]
    result = CliRunner().invoke(cli, list(map(str, command)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def read_strictly(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def first(folder):
    """The summary of a run, and what the terminal shows of it."""
    told = run(folder, "--json").output.splitlines()[-1]
    summary = read_strictly((folder / "out" / "summary.json").read_text())
    assert seal(read_strictly(told)) == summary
    file = io.StringIO()
    print_summary(summary, Console(file=file, width=200))
    return summary, file.getvalue()


def test_summary_and_terminal_tell_value_and_interval_of_the_whole_and_the_weakest_class(first):
    summary, told = first
    evaluation = summary["evaluation"]
    value, low, high = evaluation["metrics"]["accuracy"].values()
    assert 0 <= low <= value <= high <= 1
    assert f"eval accuracy            {value:.3f} ({low:.3f} to {high:.3f})" in told
    classes = {each["name"]: each["figure"] for each in evaluation["classes"]}
    assert set(classes) == {"red", "green"}
    worst, figure = next(iter(classes.items()))
    assert figure["low"] == min(each["low"] for each in classes.values())
    assert f"{worst}, accuracy {figure['value']:.3f} ({figure['low']:.3f} to " in told


def test_records_of_unknown_class_are_left_out_everywhere_and_told(first):
    summary, told = first
    assert summary["evaluation"]["records"] == 44
    assert summary["unknown_classes"] == {"eval": {"emu": 6}}
    assert summary["training"]["unknown_records"] == {"train": 0, "eval": 6}
    assert "unknown classes          6 of eval ('emu'): left out of loss, metrics and" in told
    # Keras's validation and the Evaluator measured the same records.
    accuracy = summary["evaluation"]["metrics"]["accuracy"]["value"]
    assert summary["training"]["metrics"]["val_accuracy"] == pytest.approx(accuracy, abs=1e-6)


def test_logits_are_evaluated_and_pushed_as_probabilities(first):
    import tensorflow as tf

    summary, told = first
    assert "model's output           logits; the exported model adds a softmax" in told
    model = tf.saved_model.load(summary["paths"]["pushed_model"])
    image = tf.constant([encode_png(np.full((8, 8, 3), 7, np.uint8))])
    probabilities = model.signatures["serving_default"](image_bytes=image)["probabilities"].numpy()
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-5)
    assert (probabilities >= 0).all()


def test_the_report_tells_the_same_intervals(first, folder, tmp_path):
    summary, _ = first
    page = tmp_path / "report.html"
    result = CliRunner().invoke(
        cli, ["report", str(folder / "out"), "--output", str(page), "--json"]
    )
    assert result.exit_code == 0, result.output
    figures = read_strictly(result.output.splitlines()[-1])
    assert seal(figures["evaluation"]) == figures["evaluation"]
    left_out = ("answers", "content_sha256")
    shown = {key: value for key, value in figures["evaluation"].items() if key not in left_out}
    assert shown == summary["evaluation"]
    rows = {row["name"]: row["figure"] for row in shown["classes"]}
    low, high = rows["red"]["low"], rows["red"]["high"]
    assert f"({low:.3f} to {high:.3f})" in page.read_text()
    assert "left out of all figures: 6 of eval." in page.read_text()


def test_a_second_model_is_compared_with_the_first_and_both_figures_have_intervals(first, folder):
    subclass = "training.model=tests.training.wrong_models.subclass"
    told = run(folder, "--set", subclass, "--json").output
    evaluation = read_strictly(told.splitlines()[-1])["evaluation"]
    gained, low, high = evaluation["metrics"]["accuracy gained"].values()
    assert -1 <= low <= gained <= high <= 1
    assert evaluation["records"] == 44


def test_a_training_whose_loss_is_no_number_ends_with_one_message_and_pushes_nothing(first, folder):
    pushed = sorted((folder / "out" / "pushed_model").iterdir())
    exploding = "training.model=tests.training.wrong_models.explodes"
    result = run(folder, "--set", exploding, code=1)
    message = str(result.exception)
    assert "training stopped: the loss became " in message and "Its records: train/" in message
    assert sorted((folder / "out" / "pushed_model").iterdir()) == pushed
    assert pathlib.Path(folder / "out" / "summary.json").exists()
