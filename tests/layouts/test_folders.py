"""What folders mean is the same at every door, is said there, or asked before anything is written.

Doors: `init`, `plan`, `ingest` on the command line and from Python, ImageExampleGen, Kubeflow.
"""

import collections
import json
import os

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from image_pipeline import api
from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.config import PipelineConfig
from image_pipeline.kubeflow.compile import prepare_options
from tests.drawings import draw, encode_png
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam
_SPLITS = {"train/rose": 4, "train/iris": 4, "val/rose": 1, "val/iris": 2, "pred": 2}
_UNCLEAR = {"data/rose": 3, "data/iris": 3, "results": 1}
_SAID = [
    "train/, val/ (eval) are taken as splits, the folders in them as classes: iris, rose",
    "pred/: 2 images of no class are left out (ingest.leave_out)",
]


def _draw(folder, counts):
    for part, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = draw(100 * part + number)
            (folder / name / f"{number}.png").write_bytes(encode_png(pixels))
    return folder


def _run(*arguments, **keywords):
    result = CliRunner().invoke(cli, list(map(str, arguments)), **keywords)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def _rows(data_dir):
    index = pq.read_table(data_dir / "index.parquet")
    return sorted(zip(*(index[name].to_pylist() for name in ("split", "label")), strict=True))


_ROWS = sorted(
    [("train", "rose"), ("train", "iris")] * 4 + [("eval", "rose")] + [("eval", "iris")] * 2
)


def test_every_door_understands_the_same_splits_and_classes(tmp_path, capfd):
    folder = _draw(tmp_path / "flowers", _SPLITS)
    images = ("--images", folder)
    first = api.ingest(str(folder), str(tmp_path / "python"))
    assert first["understood"] == _SAID
    assert (first["written"], first["skipped"], first["quarantined"]) == (11, 2, 0)

    _run("ingest", *images, "--output", tmp_path / "shown")
    shown = capfd.readouterr().out.splitlines()
    assert [line.split(maxsplit=2)[2] for line in shown if line.startswith("taken as")] == _SAID
    planned = json.loads(_run("plan", *images, "--json"))
    assert planned["understood"] == _SAID
    assert planned["classes"] == {"iris": 6, "rose": 5}

    written = _run("init", folder, "--yes", "--output", tmp_path / "config.yaml")
    assert all(f"taken as          {sentence}" in written for sentence in _SAID)
    config = ("--config", tmp_path / "config.yaml")
    _run("ingest", *images, "--output", tmp_path / "init", *config, "--quiet")

    options = IngestOptions()
    work = str(tmp_path / "work")
    run_ingest(str(folder), str(tmp_path / "component"), work, options, make_pipeline)
    compiled, *_ = prepare_options(PipelineConfig(), str(folder), ())
    assert list(compiled.ingest.understood) == _SAID
    work = str(tmp_path / "later")
    run_ingest(str(folder), str(tmp_path / "compiled"), work, compiled.ingest, make_pipeline)
    for door in ("python", "shown", "init", "component", "compiled"):
        assert _rows(tmp_path / door) == _ROWS, door
    manifests = {(tmp_path / d / "manifest.json").read_bytes() for d in ("python", "component")}
    assert {(tmp_path / "compiled" / "manifest.json").read_bytes()} == manifests

    report = _run("report", tmp_path / "python", "--output", tmp_path / "report.html")
    assert "report.html" in report
    assert "<li>train/, val/ (eval) are taken as" in (tmp_path / "report.html").read_text()


def test_a_data_set_of_such_folders_is_brought_up_to_date(tmp_path):
    folder = _draw(tmp_path / "flowers", _SPLITS)
    data_dir = str(tmp_path / "out")
    api.ingest(str(folder), data_dir)
    (folder / "val" / "rose" / "new.png").write_bytes(encode_png(draw(999)))
    again = api.ingest(str(folder), data_dir)
    assert (again["written"], again["written_before"]) == (12, 11)
    _run("update", data_dir)
    _draw(folder, {"test/rose": 1, "test/iris": 1})
    with pytest.raises(UserError, match=r"with other options \(ingest.split_pattern was "):
        api.ingest(str(folder), data_dir)


@pytest.mark.parametrize("door", ["python", "plan", "init", "component", "kubeflow"])
def test_what_is_unclear_is_asked_before_anything_is_written(tmp_path, door):
    folder = str(_draw(tmp_path / "flowers", _UNCLEAR))
    out = str(tmp_path / "out")
    with pytest.raises(UserError) as caught:
        if door == "python":
            api.ingest(folder, out)
        elif door == "plan":
            _run("plan", "--images", folder)
        elif door == "init":
            _run("init", folder, "--yes", "--output", out)
        elif door == "component":
            run_ingest(folder, out, f"{out}.work", IngestOptions(), make_pipeline)
        else:
            prepare_options(PipelineConfig(), folder, ())
    assert str(caught.value) == (
        f"{folder!r} may mean several things: it has the folders data/, results/, and data/, "
        f"results/ are hardly classes. Say which: for what is in data/ (iris, rose), ingest "
        f"{folder}/data; for the classes data, results, set "
        "'ingest.label_pattern=\"(?P<label>[^/]+)/.*\"'; for no labels, set "
        "ingest.label_pattern=null."
    )
    assert not os.path.exists(out)


def test_what_the_refusal_names_works(tmp_path):
    folder = _draw(tmp_path / "flowers", _UNCLEAR)
    _run("ingest", "--images", folder / "data", "--output", tmp_path / "a", "--quiet")
    assert {label for _, label in _rows(tmp_path / "a")} == {"iris", "rose"}
    pattern = 'ingest.label_pattern="(?P<label>[^/]+)/.*"'
    _run("ingest", "--images", folder, "--output", tmp_path / "b", "--set", pattern, "--quiet")
    assert {label for _, label in _rows(tmp_path / "b")} == {"data", "results"}


def test_init_asks_which_is_meant(tmp_path):
    folder = _draw(tmp_path / "flowers", _UNCLEAR)
    config = tmp_path / "config.yaml"
    shown = _run("init", folder, "--output", config, input="1\n\n\n\n\n")
    assert "  1  what is in data/ (iris, rose)\n  2  the classes data, results\n  3  no" in shown
    assert f"--images {folder}/data --output out" in shown
    config.unlink()
    shown = _run("init", folder, "--output", config, input="2\n\n\n\n\n")
    assert "2: data (6), results (1)" in shown
    _run("ingest", "--images", folder, "--output", tmp_path / "a", "--config", config, "--quiet")
    assert {label for _, label in _rows(tmp_path / "a")} == {"data", "results"}


def test_a_split_of_nothing_but_copies_is_kept_and_told(tmp_path):
    images, config, out = tmp_path / "images", tmp_path / "config.yaml", tmp_path / "out"
    # The first by path are kept: those of train.
    for name, count in {"train/rose": 3, "train/iris": 3, "val/rose": 2, "val/iris": 2}.items():
        (images / name).mkdir(parents=True)
        for number in range(count):
            pixels = draw(10 * name.endswith("iris") + number)
            (images / name / f"{number}.png").write_bytes(encode_png(pixels))
    with pytest.raises(UserError, match=r"'eval' would be empty.*ingest.duplicates=keep_as_given"):
        api.ingest(str(images), str(out))
    said = _run("init", images, "--output", config, "--yes")
    assert "all images of eval are copies of another split's, and say nothing of new" in said
    _run("ingest", "--images", images, "--output", out, "--config", config)
    counts = collections.Counter(_rows(out))
    assert counts == {
        ("train", "rose"): 3, ("train", "iris"): 3, ("eval", "rose"): 2, ("eval", "iris"): 2
    }  # fmt: skip
