"""Tags and values through the whole pipeline by the command line, from a table to answers."""

import json

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from image_pipeline.cli import cli
from tests.drawings import encode_png

pytestmark = pytest.mark.e2e

NAMES = ("red", "green", "blue")
CONFIG = """
ingest: {prepare: {encoding: png}, splits: {train: 0.7, eval: 0.3}, shards: 1}
view: {height_px: 8, width_px: 8}
feeding: {batch_size: 16, augment: [flip_horizontal]}
training: {epochs: 12, learning_rate: 0.02}
evaluation: {min_f1: 0.7, max_mean_squared_error: 0.1}
"""


def _write(folder, say):
    """Noise with some bright channels, of which the table says something."""
    (folder / "images").mkdir(parents=True)
    generator, rows = np.random.default_rng(0), []
    for number in range(80):
        bright = generator.random(3) < (0.6, 0.4, 0.3)
        pixels = generator.integers(0, 60, (8, 8, 3), np.uint8)
        pixels[..., bright] += 150
        path = f"{number:02d}.png"
        (folder / "images" / path).write_bytes(encode_png(pixels))
        rows.append({"path": path, **say(bright)})
    (folder / "images/t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "config.yaml").write_text(CONFIG)
    return rows


def _run(folder, say, *options):
    rows = _write(folder, say)
    places = ["--images", folder / "images/t.jsonl", "--output", folder / "out"]
    command = ["run", *places, "--config", folder / "config.yaml", "--json", *options]
    result = CliRunner().invoke(cli, list(map(str, command)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.output.splitlines()[-1])
    files = [(folder / "images" / row["path"]).read_bytes() for row in rows]
    served = tf.saved_model.load(summary["paths"]["pushed_model"]).signatures["serving_default"]
    answers = served(image_bytes=tf.constant([*files, b"no image"]))
    assert answers["valid"].numpy().tolist() == [True] * len(files) + [False]
    return rows, summary, {name: value.numpy() for name, value in answers.items()}


def _report(folder):
    """The words of the run's report, and its figures."""
    command = ["report", folder / "out", "--output", folder / "report.html", "--json"]
    result = CliRunner().invoke(cli, list(map(str, command)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    page = (folder / "report.html").read_text()
    return " ".join(page.split()), json.loads(result.output.splitlines()[-1])


def test_tags_are_learned_evaluated_and_served(tmp_path):
    def say(bright):
        return {"tags": [name for name, is_on in zip(NAMES, bright, strict=True) if is_on]}

    weighted = ("--set", "training.class_weights=balanced")
    rows, summary, answers = _run(tmp_path / "tags", say, *weighted)
    assert summary["label"] == "image/tags"
    assert {each["name"] for each in summary["classes"]} == set(NAMES)
    evaluation = summary["evaluation"]
    assert evaluation["measure"] == "F1" and evaluation["classes"].keys() == set(NAMES)
    assert evaluation["overall"]["F1"] >= 0.7 and summary["blessed"]
    assert answers["probabilities"].shape == (81, 3)
    likely = [{tag.decode() for tag in row} - {""} for row in answers["tags"]]
    right = [found == set(row["tags"]) for found, row in zip(likely, rows, strict=False)]
    assert np.mean(right) > 0.6 and likely[-1] == set()
    page, figures = _report(tmp_path / "tags")
    misses = figures["misses"]
    assert misses["records"] == misses["of"] == evaluation["overall"]["records"]
    assert f"it answers just the right tags for {misses['right']:,}." in page
    off = [bool(each["missed"] or each["wrong"]) for each in misses["worst"]]
    assert off.count(True) <= misses["records"] - misses["right"]
    f1 = evaluation["overall"]["F1"]
    # Where every answer is right there is no range to speak of.
    assert ("<p>F1 1 on" if f1 == 1 else f"<p>F1 {f1:,.3f} (") in page
    assert (f1 == 1) == (figures["metrics"]["interval"] is None) and "<h4>By tag, " in page
    images = {row["name"]: row["counts"][1] for row in figures["tags"]["table"]["rows"]}
    assert {row["name"]: row["records"] for row in figures["metrics"]["classes"]} == images


def test_values_are_learned_evaluated_and_served(tmp_path):
    def say(bright):
        return {"label": float(np.dot(bright, [0.5, 1, 1.5]) - 0.25)}

    rows, summary, answers = _run(tmp_path / "values", say)
    assert (summary["label"], summary["classes"]) == ("image/value", [])
    overall = summary["evaluation"]["overall"]
    assert overall["mean squared error"] <= 0.1 and summary["blessed"]
    assert overall["mean absolute error"] < 0.4
    values = answers["value"]
    assert values.shape == (81,) and values[-1] == 0
    errors = values[:-1] - [row["label"] for row in rows]
    assert np.mean(np.square(errors)) < 0.2
    page, figures = _report(tmp_path / "values")
    worst = figures["misses"]["worst"]
    assert [each["error"] for each in worst] == sorted((e["error"] for e in worst), reverse=True)
    assert {each["value"] for each in worst} <= {row["label"] for row in rows}
    value, prediction = (f"{worst[0][key]:,.5g}" for key in ("value", "prediction"))
    assert f"<b>{value}</b><span>predicted {prediction}</span>" in page
    assert "<p>Mean squared error" in page and "By class" not in page
