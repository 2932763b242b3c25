"""`image-pipeline train`: training alone, on one machine."""

import json

import pytest
from click.testing import CliRunner

from image_pipeline import analyze, ingest, predict
from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from tests.drawings import write_folder

pytestmark = pytest.mark.beam

DENSE = "training.model=tests.training.device_models.dense"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Images, their data set, and its graph for 8 by 8 pixels."""
    folder = tmp_path_factory.mktemp("train")
    images, data, graph = (str(folder / name) for name in ("images", "data", "graph"))
    ingest(str(write_folder(folder / "images", per_class=15)), data)
    analyze(data, graph, view={"height_px": 8, "width_px": 8})
    return images, data, graph


def train(made, output, *options):
    _, data, graph = made
    settings = [word for option in (DENSE, *options) for word in ("--set", option)]
    arguments = ["train", data, "--graph", graph, "--output", str(output), *settings, "--json"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    return json.loads(result.output.splitlines()[-1])


def test_a_model_is_trained_and_goes_on_from_its_checkpoint(made, tmp_path):
    found = train(made, tmp_path / "once", "training.epochs=2")
    assert (found["worker"], found["workers"]) == (0, 1)
    assert len(found["metrics"]["loss"]) == 2 and len(found["metrics"]["val_loss"]) == 2
    first = train(made, tmp_path / "twice", "training.epochs=1")
    second = train(made, tmp_path / "twice", "training.epochs=2")
    assert first["metrics"]["loss"] == found["metrics"]["loss"][:1]
    assert second["metrics"]["loss"] == found["metrics"]["loss"]
    once, twice = (list(predict(str(tmp_path / name), made[0])) for name in ("once", "twice"))
    assert len(once) == 30 and once == twice


def test_a_folder_that_tensorflow_cannot_name_is_refused(made, tmp_path):
    with pytest.raises(UserError, match=r"^--output must have a path that is UTF-8, .*/caf\\xe9'"):
        train(made, f"{tmp_path}/caf\udce9")


def test_a_view_that_is_not_the_graphs_is_refused(made, tmp_path):
    with pytest.raises(
        UserError, match=r"view must be what the transform graph in .* was made for"
    ):
        train(made, tmp_path / "model", "view.height_px=9")


def test_a_runs_folder_is_no_data_set(made, tmp_path):
    with pytest.raises(UserError, match="manifest"):
        train((made[0], str(tmp_path), made[2]), tmp_path / "model")
