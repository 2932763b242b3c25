"""A file of arrays by the command line: looked at, forecast, ingested and trained on."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from tests.array_files import write_hdf5, write_npy

pytestmark = [pytest.mark.e2e, pytest.mark.wide]


def write_arrays(count=90):
    """Squares of two brightnesses, and noise."""
    generator = np.random.default_rng(0)
    labels = np.arange(count) % 2
    images = generator.integers(0, 90, (count, 8, 8, 3), np.uint8)
    images[:, 2:6, 2:6] += (labels * 120).astype(np.uint8)[:, None, None, None]
    return images, labels


def _run(*command):
    result = CliRunner().invoke(cli, list(map(str, command)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_model_from_an_hdf5_file(tmp_path):
    images, labels = write_arrays()
    arrays = {"train/X": images, "train/y": labels, "test/X": images[:20], "test/y": labels[:20]}
    path = write_hdf5(tmp_path / "a.h5", arrays, chunks=(16, 8, 8, 3), compression="gzip")
    config = tmp_path / "config.yaml"
    shown = _run("init", path, "--output", config, "--yes")
    assert "columns           image: 'train/X', label: 'train/y'\n" in shown
    assert "classes           2: 0 (45), 1 (45)\n" in shown
    assert "sizes             all 8 × 8 (height × width)\n" in shown
    plan = json.loads(_run("plan", "--images", path, "--config", config, "--json"))
    assert (plan["found"], plan["bad_fraction"], plan["classes"]) == (90, 0, {"0": 45, "1": 45})
    settings = ["training.epochs=12", "feeding.batch_size=16", "feeding.augment=[]"]
    settings += ["ingest.prepare.encoding=raw", "training.learning_rate=0.02"]
    options = [part for each in settings for part in ("--set", each)]
    places = ["--images", path, "--output", tmp_path / "out", "--config", config]
    summary = json.loads(_run("run", *places, *options, "--json").splitlines()[-1])
    assert summary["blessed"]
    assert summary["evaluation"]["metrics"]["accuracy"]["value"] > 0.9


def test_images_without_labels_are_ingested(tmp_path):
    images, labels = write_arrays()
    path = write_npy(tmp_path / "X.npy", {"X": images, "z": labels})
    output = _run("ingest", "--images", path, "--output", tmp_path / "out", "--json")
    assert json.loads(output.splitlines()[-1])["written"] == 90
    command = ["run", "--images", path, "--output", tmp_path / "no"]
    result = CliRunner().invoke(cli, list(map(str, command)))
    assert isinstance(result.exception, UserError)
    assert str(result.exception).endswith(
        "name no class, but training needs at least two; name the column or array of labels by "
        "ingest.columns={label: …}."
    )


SETTINGS = [
    *("ingest.prepare.encoding=raw", "ingest.prepare.resize=none", "ingest.shards=1"),
    *("training.epochs=3", "feeding.batch_size=16", "feeding.augment=[flip_horizontal]"),
    *("view.height_px=8", "view.width_px=8", "training.learning_rate=0.02"),
]


def _run_in_place(path, output, *settings):
    options = [part for each in [*SETTINGS, *settings] for part in ("--set", each)]
    arguments = ["run", "--images", path, "--output", output, *options, "--json"]
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, result.exception or result.output
    return json.loads(result.output.splitlines()[-1])


def test_training_and_evaluation_are_those_of_a_copy(tmp_path):
    images, labels = write_arrays()
    arrays = {"x": images, "y": labels}
    path = write_hdf5(tmp_path / "a.h5", arrays, chunks=(16, 8, 8, 3), compression="gzip")
    copied = _run_in_place(path, tmp_path / "copied")
    placed = _run_in_place(path, tmp_path / "placed", "ingest.in_place=true")
    assert placed["evaluation"]["metrics"] == copied["evaluation"]["metrics"]
    assert placed["classes"] == copied["classes"]
    assert placed["statistics"] == copied["statistics"]
    assert _report(tmp_path / "placed") == _report(tmp_path / "copied")


def _report(output):
    """What the report of a run says of the model's answers."""
    page = output / "report.html"
    result = CliRunner().invoke(cli, ["report", str(output), "--output", str(page), "--json"])
    assert result.exit_code == 0, result.exception or result.output
    assert page.stat().st_size > 10_000
    figures = json.loads(result.output.splitlines()[-1])
    return figures["matrix"], figures["worst"]
