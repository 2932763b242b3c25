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
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.config import load_config
from image_pipeline.run.folds import _divide, cross_validate, notice_rare
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


def test_the_interval_is_students_of_the_folds(found):
    _, summary = found
    values = [each["accuracy"] for each in summary["folds"]]
    assert len(values) == 3
    figure, mean = summary["figures"]["accuracy"], statistics.mean(values)
    apart = 4.302652729911275 * statistics.stdev(values) / math.sqrt(3)
    assert figure == pytest.approx({"mean": mean, "low": mean - apart, "high": mean + apart})
    history = json.loads((found[0] / "fold_2/history.json").read_text())
    assert summary["folds"][1]["accuracy"] == history["metrics"]["val_accuracy"][-1]


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
    assert notice_rare(listing, 20) == []  # which are tags


@pytest.mark.parametrize("option", [("--to", "Trainer"), ("--push", "models")])
def test_what_folds_do_not_have_is_refused(images, tmp_path, option):
    with pytest.raises(UserError, match="--folds trains models to be judged"):
        run(images, tmp_path / "out", "--folds", "2", *option)
