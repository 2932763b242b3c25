"""`image-pipeline run --folds`: cross-validation."""

import collections
import json
import math
import statistics

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.intervals import wilson_interval
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.config import load_config
from image_pipeline.run.folds import _divide, _summarize, cross_validate, notice
from image_pipeline.run.run_plan import plan_run
from tests.drawings import draw, encode_png, write_folder

pytestmark = pytest.mark.beam

SETTINGS = (
    "training.model=tests.training.device_models.dense",
    "training.epochs=2",
    "view.height_px=8",
    "view.width_px=8",
)
FOLDS = ("fold_1", "fold_2", "fold_3")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Twice 15 images, a copy of one of them, and one of a third class."""
    folder = write_folder(tmp_path_factory.mktemp("folds") / "images", per_class=15)
    first = sorted(folder.rglob("*.*"))[0]
    first.with_stem("copy").write_bytes(first.read_bytes())
    (folder / "rare").mkdir()
    (folder / "rare/one.png").write_bytes(encode_png(draw(99)))
    return folder


def run(images, output, *options):
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    arguments = ["run", "--images", str(images), "--output", str(output), *settings, *options]
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


@pytest.fixture(scope="module")
def found(images, tmp_path_factory):
    output = tmp_path_factory.mktemp("folds") / "out"
    printed = run(images, output, "--folds", "3", "--json").output
    return output, json.loads(printed.splitlines()[-1])


def test_each_image_is_judged_once_by_a_model_and_a_graph_that_have_not_seen_it(found):
    output, summary = found
    rows = pq.read_table(f"{summary['data_set']}/index.parquet", columns=["split", "label"])
    counts = collections.Counter(rows["split"].to_pylist())
    assert counts.total() == 31 and sorted(counts) == sorted(FOLDS)
    of_class = collections.Counter(zip(*rows.to_pydict().values(), strict=True))
    assert {of_class[fold, name] for fold in FOLDS for name in ("cat", "dog")} == {5}
    for fold in FOLDS:
        analysis = json.loads((output / fold / "graph/analysis.json").read_text())
        assert analysis["records"] == 31 - counts[fold]
        assert analysis["splits"] == [other for other in FOLDS if other != fold]


def test_the_figures_are_the_trainings_last(found):
    output, summary = found
    history = json.loads((output / "fold_2/history.json").read_text())
    assert summary["folds"][1]["accuracy"] == history["metrics"]["val_accuracy"][-1]
    values = [each["accuracy"] for each in summary["folds"]]
    assert summary["figures"]["accuracy"]["mean"] == pytest.approx(sum(values) / 3)


T_OF_5 = 2.7764451051977987  # Student's 97.5th percentile, of four degrees of freedom


@pytest.mark.parametrize(
    "values", [[0.9, 1.0, 1.0, 0.95, 1.0], [0.5, 0.8, 0.65, 0.7, 0.6], [0, 0, 0.1, 0, 0]]
)
def test_a_share_s_interval_is_wilson_s_of_what_lies_between_folds(values):
    """Its ends are what the mean lies as far from as folds that differ so much allow."""
    mean, error = statistics.mean(values), statistics.stdev(values) / math.sqrt(5)
    figure = _summarize([{"accuracy": value} for value in values], 100)["accuracy"]
    assert figure["mean"] == pytest.approx(mean)
    assert 0 <= figure["low"] < mean < figure["high"] <= 1
    for end in (figure["low"], figure["high"]):
        error_there = error * math.sqrt(end * (1 - end) / (mean * (1 - mean)))
        assert abs(end - mean) == pytest.approx(T_OF_5 * error_there)


@pytest.mark.parametrize("right", [0, 80, 100])
def test_folds_that_are_all_equal_are_no_surer_than_their_images(right):
    figure = _summarize([{"accuracy": right / 100}] * 5, 100)["accuracy"]
    low, high = wilson_interval(right, 100)
    assert figure == pytest.approx({"mean": right / 100, "low": low, "high": high})


def test_a_loss_s_interval_is_students():
    values = [0.2, 0.4, 0.9]  # within 0 and 1 by chance
    apart = 4.302652729911275 * statistics.stdev(values) / math.sqrt(3)
    figure = _summarize([{"loss": value} for value in values], 100)["loss"]
    assert figure == pytest.approx({"mean": 0.5, "low": 0.5 - apart, "high": 0.5 + apart})


def test_early_stopping_by_what_then_judges_is_told(images, tmp_path):
    listing = list_images(str(images), IngestOptions())
    stops = TrainingOptions(early_stopping_patience=2)
    (told,) = notice(listing, stops, 1)
    assert "by the images that then judge it, so all figures are somewhat too good" in told
    by_train = TrainingOptions(early_stopping_patience=2, early_stopping_monitor="loss")
    assert notice(listing, by_train, 1) == notice(listing, TrainingOptions(), 1) == []


def test_what_was_interrupted_goes_on(images, found, tmp_path):
    settings = load_config(None, SETTINGS)
    begun = []

    def start(stage):
        begun.append(stage)
        if stage == "fold_2 training":
            raise KeyboardInterrupt

    for expected in (pytest.raises(KeyboardInterrupt), None):
        plan, listing = plan_run(settings, str(images), str(tmp_path), ())
        arguments = (plan.config, listing, str(tmp_path), 3, plan.beam_args)
        if expected is not None:
            with expected:
                cross_validate(*arguments, start)
    again = cross_validate(*arguments)
    assert begun[-1] == "fold_2 training"
    assert again["folds"] == found[1]["folds"]


def test_a_class_of_fewer_images_than_folds_is_told_and_the_figures_are_shown(
    images, tmp_path, capfd
):
    run(images, tmp_path, "--folds", "2")
    shown = capfd.readouterr().out
    assert "'rare' (1)" in shown
    assert "mean of 2 folds" in shown and "accuracy" in shown


def test_images_with_splits_of_their_own_are_not_divided_anew(images, tmp_path):
    folder = tmp_path / "images"
    for split in ("train", "test"):
        write_folder(folder / split, per_class=3)
    with pytest.raises(UserError, match=r"no splits of their own.*have, by folder; give"):
        run(folder, tmp_path / "out", "--folds", "2")


def test_fewer_images_than_folds_are_refused(tmp_path):
    folder = write_folder(tmp_path / "images", per_class=2)
    listing = list_images(str(folder), IngestOptions())
    names = [f"fold_{number}" for number in range(5)]
    assert _divide(listing, names[:4]).options.splits == dict.fromkeys(names[:4], 0.25)
    with pytest.raises(UserError, match="but there are 4; give --folds=4 at most"):
        _divide(listing, names)


def test_a_column_of_splits_is_left_out_where_that_is_said(images, tmp_path):
    files = sorted(images.rglob("*.png"))[:4]
    named = zip(files, "aabb", ("train", "eval") * 2, strict=True)
    rows = [f"{file},{tag},{split}" for file, tag, split in named]
    (tmp_path / "table.csv").write_text("\n".join(["path,tags,split", *rows]))

    def list_rows(**columns):
        named = {"columns": {"label": "tags", **columns}, "column_types": {"label": "strings"}}
        options = IngestOptions(**named, tag_separator=";", follow_links=True)
        return list_images(str(tmp_path / "table.csv"), options)

    with pytest.raises(UserError, match=r"have, by a column; leave it out by .*split: null\}, or"):
        cross_validate(load_config(None), list_rows(), str(tmp_path), 2, ())
    listing = list_rows(split=None)
    assert {*_divide(listing, FOLDS).options.splits} == {*FOLDS}
    assert notice(listing, TrainingOptions(), 20) == []  # which are tags


@pytest.mark.parametrize("option", [("--to", "Trainer"), ("--push", "models")])
def test_what_folds_do_not_have_is_refused(images, tmp_path, option):
    with pytest.raises(UserError, match="--folds trains models to be judged"):
        run(images, tmp_path / "out", "--folds", "2", *option)
