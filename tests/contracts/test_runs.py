"""One whole run for each kind of label, by the command line, from a table to served answers.

That of classes is `tests/pipeline/test_end_to_end.py`.
"""

import collections
import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from PIL import Image

from image_pipeline.cli import cli
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.evaluation.average_precision import (
    average_precisions,
    join_found,
    match_boxes,
)
from tests.drawings import encode_png, write_scenes
from tests.training import box_data

pytestmark = pytest.mark.e2e

OPTIONS = {
    "ingest.prepare.encoding": "png",
    "ingest.splits": "{train: 0.7, eval: 0.3}",
    "view": "{height_px: 8, width_px: 8}",
    "feeding.batch_size": 8,
    "feeding.augment": "[flip_horizontal]",
    "training.epochs": 5,
    "training.learning_rate": 0.02,
}


def call(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def write_bright(say):
    """Writes noise with some bright channels, of which a table says something."""

    def write(folder):
        folder.mkdir()
        generator, rows = np.random.default_rng(0), []
        for number in range(60):
            bright = generator.random(3) < (0.6, 0.4, 0.3)
            pixels = generator.integers(0, 60, (8, 8, 3), np.uint8)
            pixels[..., bright] += 150
            (folder / f"{number:02d}.png").write_bytes(encode_png(pixels))
            rows.append({"path": f"{number:02d}.png", **say(bright)})
        (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return folder / "t.jsonl", [list(row.values())[1] for row in rows]

    return write


def write_boxes(folder):
    """The truth is each image's boxes as shares, as they were drawn; every tenth has none."""
    truth = []
    for number in range(60):
        boxes = [] if number % 10 == 9 else box_data.draw_boxes(number)[1]
        sides = [np.array(box["bbox"]) for box in boxes]
        corners = [[y / 48, x / 64, (y + h) / 48, (x + w) / 64] for x, y, w, h in sides]
        ids = [box_data.CLASSES.index(box["category"]) for box in boxes]
        rows = [[*corner, id_, 0] for corner, id_ in zip(corners, ids, strict=True)]
        truth.append(np.reshape(rows, (-1, 6)))
    return box_data.write_table(folder, len(truth)), truth


def write_masks(folder):
    write_scenes(folder, 40)
    return folder, [np.asarray(Image.open(path)) for path in sorted(folder.glob("masks/*"))]


def check_tags(truth, answers):
    found = [{tag.decode() for tag in row} - {""} for row in answers["tags"]]
    assert np.mean([own == set(tags) for own, tags in zip(found, truth, strict=True)]) > 0.6


def check_value(truth, answers):
    assert np.mean(np.square(answers["value"] - truth)) < 0.2


def check_boxes(truth, answers):
    parts = collections.defaultdict(list)
    for row, own in enumerate(truth):
        count = answers["count"][row]
        names = [name.decode() for name in answers["labels"][row, :count]]
        ids = list(map(box_data.CLASSES.index, names))
        sides, scores = answers["boxes"][row, :count], answers["scores"][row, :count]
        for id_, each in match_boxes(own, np.column_stack([sides, ids, scores])).items():
            parts[id_].append(each)
    precisions = np.stack([average_precisions(join_found(each)) for each in parts.values()])
    assert precisions.shape[0] == len(box_data.CLASSES) and precisions[:, 0].mean() > 0.8
    assert answers["scores"][9::10].max() < 0.5


def check_masks(truth, answers):
    is_asked = np.stack(truth) != 255
    assert (answers["mask"] == truth)[is_asked].mean() > 0.9
    decoded = tf.io.decode_png(answers["mask_bytes"][0])[..., 0]
    np.testing.assert_array_equal(decoded, answers["mask"][0])


def show_tags(page, figures, summary):
    found = figures["evaluation"]
    right, records = found["answers"]["right"], found["records"]
    assert f"It answers just the right tags for {right:,} of {records:,} eval record" in page
    off = [bool(each["missed"] or each["wrong"]) for each in found["answers"]["worst"]]
    assert off.count(True) == records - right
    f1 = found["metrics"]["F1"]["value"]
    # Where every answer is right there is no range to speak of.
    assert ("<p>F1 1 on" if f1 == 1 else f"<p>F1 {f1:,.3f} (") in page
    assert (f1 == 1) == (found["metrics"]["F1"]["low"] is None) and "<h4>By tag, " in page
    images = {row["name"]: row["counts"][1] for row in figures["tags"]["table"]["rows"]}
    assert {row["name"]: row["records"] for row in found["classes"]} == images


def show_value(page, figures, summary):
    worst = figures["worst"]
    errors = [abs(each["value"] - each["prediction"]) for each in worst]
    assert errors == sorted(errors, reverse=True)
    assert {each["value"] % 0.5 for each in worst} == {0.25}  # As the table has them.
    value, prediction = (f"{worst[0][key]:,.5g}" for key in ("value", "prediction"))
    assert f"<b>{value}</b><span>predicted {prediction}</span>" in page
    assert "<p>Mean squared error" in page and "By class" not in page
    assert summary["evaluation"]["metrics"]["mean absolute error"]["value"] < 0.4


def show_boxes(page, figures, summary):
    assert "mAP50-95" in page and summary["evaluation"]["metrics"]["mAP50"]["value"] > 0.7


def show_masks(page, figures, summary):
    assert "Pixels of the 2 classes of masks" in page
    pixels = read_manifest(summary["paths"]["examples"]).splits["train"].mask_pixels
    assert f"{pixels['1']:,}" in page


@dataclasses.dataclass(frozen=True)
class Run:
    """What is run, and what becomes of it.

    Attributes:
      write: writes images to a folder; returns what is ingested, and the truth of each image.
      options: beside `OPTIONS`; among them the bound of the measure.
      measure: what evaluation judges by.
      classes: the names that have figures of their own.
      check: compares the truth with what is answered for the files.
      nothing: what is answered for a file that is not an image.
      show: looks for what was measured in the report's page and figures; takes the summary, too.
      label: the column that the summary names; None for all that have classes.
    """

    write: Callable[[pathlib.Path], tuple[pathlib.Path, list[Any]]]
    options: Mapping[str, Any]
    measure: str
    classes: Sequence[str]
    check: Callable[[list[Any], Mapping[str, np.ndarray]], None]
    nothing: Mapping[str, Any]
    show: Callable[[str, Mapping[str, Any], Mapping[str, Any]], None]
    label: str | None = None


NAMES = ("red", "green", "blue")
RUNS = {
    "tags": Run(
        write=write_bright(
            lambda bright: {"tags": [n for n, is_on in zip(NAMES, bright, strict=True) if is_on]}
        ),
        options={"evaluation.min_f1": 0.7, "training.class_weights": "balanced"},
        measure="F1",
        classes=NAMES,
        check=check_tags,
        nothing={"tags": [b""] * 3, "probabilities": [0] * 3},
        show=show_tags,
        label="image/tags",
    ),
    "value": Run(
        write=write_bright(lambda bright: {"label": float(bright @ [0.5, 1, 1.5] - 0.25)}),
        options={"evaluation.max_mean_squared_error": 0.1, "training.epochs": 10},
        measure="mean squared error",
        classes=(),
        check=check_value,
        nothing={"value": 0},
        show=show_value,
        label="image/value",
    ),
    "boxes": Run(
        write=write_boxes,
        options={
            "view": "{height_px: 48, width_px: 64}",
            "training.epochs": 14,
            "training.learning_rate": 0.003,
            "evaluation.min_map_50_95": 0.25,  # A network that has not been trained has 0.
        },
        measure="mAP50-95",
        classes=box_data.CLASSES,
        check=check_boxes,
        nothing={"count": 0},
        show=show_boxes,
    ),
    "mask": Run(
        write=write_masks,
        options={
            "ingest.masks.classes": "[ground, block]",
            "view": "{height_px: 16, width_px: 20}",
            "feeding.augment": "[flip_horizontal, {op: rotate, degrees: 10}]",
            "training.epochs": 3,
            "training.learning_rate": 0.003,
            "evaluation.min_mean_iou": 0.6,
        },
        measure="mean IoU",
        classes=("ground", "block"),
        check=check_masks,
        nothing={"confidence": 0},
        show=show_masks,
    ),
}


@pytest.fixture(scope="module", params=RUNS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def done(name, tmp_path_factory):
    """The folder of a run by a starter configuration, its summary and the truth; to be read."""
    folder = tmp_path_factory.mktemp(name)
    source, truth = RUNS[name].write(folder / "raw")
    call("init", source, "--output", folder / "c.yaml", "--yes")
    options = OPTIONS | RUNS[name].options
    sets = [part for pair in options.items() for part in ("--set", "=".join(map(str, pair)))]
    places = ("--images", source, "--output", folder / "out", "--config", folder / "c.yaml")
    summary = json.loads(call("run", *places, *sets, "--json").splitlines()[-1])
    return folder, summary, truth


def test_a_model_is_judged_by_its_measure_and_pushed(name, done):
    run, summary = RUNS[name], done[1]
    evaluation = summary["evaluation"]
    classes = {each["name"]: each["figure"]["value"] for each in evaluation["classes"]}
    assert summary["blessed"] is True and summary.get("label") == run.label
    assert evaluation["measure"] == run.measure
    assert set(classes) == set(run.classes)
    images_have = run.classes if run.measure == "F1" else ()
    assert {each["name"] for each in summary["classes"]} == set(images_have)
    (bound, limit), *_ = [(k, v) for k, v in run.options.items() if k.startswith("evaluation.m")]
    measured = evaluation["metrics"][run.measure]["value"]
    assert measured <= limit if "max" in bound else measured >= limit
    if run.measure.startswith("m") and run.classes:  # A mean over the classes.
        assert measured == pytest.approx(np.mean(list(classes.values())), abs=1e-9)


def test_the_pushed_model_answers_the_truth_and_that_a_text_is_no_image(name, done):
    folder, summary, truth = done
    images = sorted({*folder.glob("raw/*.png"), *folder.glob("raw/images/*.png")})
    serve = tf.saved_model.load(summary["paths"]["pushed_model"]).signatures["serving_default"]
    answers = serve(image_bytes=tf.constant([*(path.read_bytes() for path in images), b"text"]))
    answers = {key: values.numpy() for key, values in answers.items()}
    assert answers["valid"].tolist() == [True] * len(truth) + [False]
    assert answers["error"].tolist() == [b""] * len(truth) + [b"not_an_image"]
    RUNS[name].check(truth, {key: values[:-1] for key, values in answers.items()})
    for key, wanted in RUNS[name].nothing.items():
        np.testing.assert_array_equal(answers[key][-1], wanted)


def test_a_run_that_has_lost_its_summary_is_shown_by_what_tfx_noted(done, tmp_path):
    folder = done[0]
    copy, page = tmp_path / "out", tmp_path / "report.html"
    shutil.copytree(folder / "out", copy)
    shown = []
    for lost in (False, True):
        if lost:
            (copy / "summary.json").unlink()
        shown.append(json.loads(call("report", copy, "--output", page, "--json").splitlines()[-1]))
    before, after = shown
    notice = after["notices"].pop(0)
    assert "summary.json' is missing" in notice["text"]
    assert after == before and after["evaluation"]["blessed"] is True


def test_what_was_measured_and_seen_is_shown(name, done, tmp_path):
    folder, summary, _ = done
    report = call("report", folder / "out", "--output", tmp_path / "report.html", "--json")
    page = " ".join((tmp_path / "report.html").read_text().split())
    RUNS[name].show(page, json.loads(report.splitlines()[-1]), summary)
    call("preview", folder / "out", "--records", 1, "--output", tmp_path / "sheet.html")
    assert "data:image/png" in (tmp_path / "sheet.html").read_text()
