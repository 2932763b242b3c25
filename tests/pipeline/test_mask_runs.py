"""A whole run on images with masks, as a person makes it: init, run, report, preview, serving."""

import json

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from PIL import Image

from image_pipeline.cli import cli
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.tasks.signatures import MASK, MASK_BYTES, VALID
from tests.drawings import write_scenes

pytestmark = pytest.mark.e2e

COUNT = 40


def call(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A starter configuration, and a run by it."""
    folder = tmp_path_factory.mktemp("masks")
    write_scenes(folder / "scenes", COUNT)
    call("init", folder / "scenes", "--output", folder / "c.yaml", "--yes")
    options = {
        "ingest.masks.classes": "[ground, block]",
        "ingest.prepare.encoding": "png",
        "feeding.batch_size": "8",
        "feeding.augment": "[flip_horizontal, {op: rotate, degrees: 10}]",
        "training.epochs": "6",
        "training.learning_rate": "0.003",
        "evaluation.min_mean_iou": "0.6",
    }
    sets = [part for pair in options.items() for part in ("--set", "=".join(pair))]
    places = ("--images", folder / "scenes", "--output", folder / "out")
    call("run", *places, "--config", folder / "c.yaml", *sets)
    return folder


@pytest.fixture(scope="module")
def summary(folder):
    return json.loads((folder / "out" / "summary.json").read_text())


def test_a_model_of_masks_is_judged_by_their_mean_iou_and_pushed(summary):
    evaluation = summary["evaluation"]
    overall, classes = evaluation["overall"], evaluation["classes"]
    assert summary["blessed"] is True
    assert set(classes) == {"ground", "block"}
    assert overall["mean IoU"] == pytest.approx(np.mean(list(classes.values())), abs=1e-9)
    assert overall["mean IoU"] >= 0.6


def test_the_pushed_model_answers_a_mask_that_fits(folder):
    (pushed,) = (folder / "out" / "pushed_model").iterdir()
    serve = tf.saved_model.load(str(pushed)).signatures["serving_default"]
    images = [(folder / "scenes" / "images" / f"{n:02d}.png").read_bytes() for n in range(COUNT)]
    answers = serve(image_bytes=tf.constant([*images, b"no image"]))
    assert answers[VALID].numpy().tolist() == [True] * COUNT + [False]
    truth = [
        np.asarray(Image.open(folder / "scenes" / "masks" / f"{n:02d}.png")) for n in range(COUNT)
    ]
    found, truth = answers[MASK].numpy()[:-1], np.stack(truth)
    is_asked = truth != 255
    assert (found == truth)[is_asked].mean() > 0.9
    decoded = tf.io.decode_png(answers[MASK_BYTES][0])[..., 0].numpy()
    np.testing.assert_array_equal(decoded, found[0])


def test_reports_and_previews_show_masks(folder):
    call("report", folder / "out", "--output", folder / "report.html")
    page = (folder / "report.html").read_text()
    assert "Pixels of the 2 classes of masks" in page
    pixels = read_manifest(_data_dir(folder)).splits["train"].mask_pixels
    assert f"{pixels['1']:,}" in page
    call("preview", _data_dir(folder), "--records", 1, "--output", folder / "sheet.html")
    assert "data:image/png" in (folder / "sheet.html").read_text()


def _data_dir(folder):
    (examples,) = (folder / "out").rglob("ImageExampleGen/examples/*/Split-train")
    return str(examples.parent)
