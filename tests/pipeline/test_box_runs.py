"""A whole run on images with boxes, from a table of them to a model that finds them."""

import json

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.evaluation.average_precision import average_precisions, match_boxes
from image_pipeline.components.evaluation.box_scores import join_found
from tests.training.box_data import CLASSES, draw_boxes, write_table

pytestmark = pytest.mark.e2e

COUNT = 60
LEAST = 0.25  # A network that has not been trained has 0.


def call(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, (result.output, result.exception)


def run(table, output):
    options = {
        "view": "{height_px: 48, width_px: 64}",
        "ingest.prepare.encoding": "png",
        "feeding.batch_size": 8,
        "feeding.augment": "[flip_horizontal]",
        "training.epochs": 40,
        "training.learning_rate": 0.003,
        "evaluation.min_map_50_95": LEAST,
    }
    sets = [part for pair in options.items() for part in ("--set", "=".join(map(str, pair)))]
    call("run", "--images", table, "--output", output, *sets)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    write_table(folder / "raw", COUNT)
    run(folder / "raw" / "table.jsonl", folder / "out")
    return folder


@pytest.fixture(scope="module")
def summary(folder):
    return json.loads((folder / "out" / "summary.json").read_text())


def test_a_model_of_boxes_is_judged_by_their_precision_and_pushed(summary):
    evaluation = summary["evaluation"]
    overall, classes = evaluation["overall"], evaluation["classes"]
    assert summary["blessed"] is True
    assert evaluation["measure"] == "mAP50-95" and set(classes) == set(CLASSES)
    assert overall["mAP50-95"] == pytest.approx(np.mean(list(classes.values())), abs=1e-9)
    assert overall["mAP50-95"] >= LEAST and overall["mAP50"] > 0.7


def test_the_pushed_model_answers_the_boxes_that_were_drawn(folder):
    (pushed,) = (folder / "out" / "pushed_model").iterdir()
    serve = tf.saved_model.load(str(pushed)).signatures["serving_default"]
    files = [(folder / "raw" / f"{number:03d}.png").read_bytes() for number in range(COUNT)]
    found = {key: value.numpy() for key, value in serve(image_bytes=tf.constant(files)).items()}
    assert found["valid"].all() and found["scores"][9::10].max() < 0.5
    parts = {}
    for row in range(COUNT):
        count = found["count"][row]
        ids = [CLASSES.index(name.decode()) for name in found["labels"][row, :count]]
        own = np.column_stack([found["boxes"][row, :count], ids, found["scores"][row, :count]])
        for id_, each in match_boxes(read_true(row), own).items():
            parts.setdefault(id_, []).append(each)
    precisions = np.stack([average_precisions(join_found(each)) for each in parts.values()])
    assert precisions.shape[0] == len(CLASSES) and precisions[:, 0].mean() > 0.8


def read_true(number):
    """An image's boxes as shares, as they were drawn."""
    if number % 10 == 9:
        return np.zeros((0, 6))
    rows = []
    for each in draw_boxes(number)[1]:
        left, top, wide, high = each["bbox"]
        sides = np.array([top, left, top + high, left + wide]) / [48, 64, 48, 64]
        rows.append([*sides, CLASSES.index(each["category"]), 0])
    return np.array(rows)


def test_what_was_measured_is_shown(folder):
    call("report", folder / "out", "--output", folder / "report.html")
    assert "mAP50-95" in (folder / "report.html").read_text()
