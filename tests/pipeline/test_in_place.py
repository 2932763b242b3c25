"""A data set without a copy of its images: the same order, batches and model, from one file."""

import json

import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from tests.array_files import write_hdf5
from tests.pipeline.test_array_commands import write_arrays

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

SETTINGS = [
    *("ingest.prepare.encoding=raw", "ingest.prepare.resize=none", "ingest.shards=1"),
    *("training.epochs=3", "feeding.batch_size=16", "feeding.augment=[flip_horizontal]"),
    *("view.height_px=8", "view.width_px=8", "training.learning_rate=0.02"),
]


def _run(path, output, *settings):
    options = [part for each in [*SETTINGS, *settings] for part in ("--set", each)]
    arguments = ["run", "--images", path, "--output", output, *options, "--json"]
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exit_code == 0, result.exception or result.output
    return json.loads(result.output.splitlines()[-1])


def test_training_and_evaluation_are_those_of_a_copy(tmp_path):
    images, labels = write_arrays()
    arrays = {"x": images, "y": labels}
    path = write_hdf5(tmp_path / "a.h5", arrays, chunks=(16, 8, 8, 3), compression="gzip")
    copied = _run(path, tmp_path / "copied")
    placed = _run(path, tmp_path / "placed", "ingest.in_place=true")
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
