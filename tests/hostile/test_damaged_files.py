"""Every file that the pipeline reads of its own, damaged in every simple way: a sentence, no more.

Each is damaged as `mutants` can, one file at a time, by the same random numbers in each run.
"""

import json
import pathlib
import shutil

import keras
import pytest

from image_pipeline.cli import call
from image_pipeline.components import contract
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.evaluation.facts import (
    COLUMNS,
    FACTS,
    MISLABELLED,
    OUTLIER_COLUMNS,
    OUTLIERS,
    read_evaluation,
    read_mislabelled,
    read_outliers,
    write_csv,
)
from image_pipeline.components.feeding.analysis import CHECKSUMS
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.models.weights import read_weights
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training.checkpoint import Checkpoints, restore_latest
from image_pipeline.components.training.history import History, read_history, write_history
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.run_folder import RunFolder
from tests.drawings import draw, encode_png, write_folder
from tests.evaluation.found import FOUND
from tests.hostile.mutants import MUTATIONS, damaged
from tests.inference.exported_models import export
from tests.ingest_runs import ingest, make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set with a rejected, a skipped and a repeated file; its graph; a run's own files."""
    folder = tmp_path_factory.mktemp("damaged")
    images = write_folder(folder / "images", per_class=6)
    (images / "cat" / "bad.png").write_bytes(b"text")
    (images / "cat" / "copy.png").write_bytes((images / "cat" / "000.png").read_bytes())
    (images / "notes.txt").write_text("text")
    ingest(images, folder / "data", max_bad_fraction=0.5, shards=1)
    data, graph = str(folder / "data"), str(folder / "graph")
    run_analysis(data, graph, VIEW, TransformOptions(), make_pipeline)
    run = folder / "run"
    history = History(metrics={"loss": [1.0]}, steps_per_epoch=2, seconds_per_epoch=[1.0])
    write_history(str(run), history)
    for path, said in (
        (run / "summary.json", {"paths": {"log": "run.log"}, "blessed": True}),
        (run / FACTS, FOUND.model_dump()),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_sealed_json(said))
    row = ("cat/000.png", "eval", "cat", "dog", 0.25, 0.75, "0a" * 16)
    write_csv(str(run / MISLABELLED), COLUMNS, [row, row])
    row = ("cat/000.png", "eval", "cat", 3.5, "0a" * 16)
    write_csv(str(run / OUTLIERS), OUTLIER_COLUMNS, [row, row])
    return folder


def list_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")


def find_failures(paths, run):
    """What each mutation of each file led to, unless that is a sentence about its file."""
    failures, refused = [], 0
    for path in paths:
        for name, mutate in MUTATIONS.items():
            with damaged(path, mutate, f"{path.name} {name}") as is_changed:
                if not is_changed:
                    continue
                code, said = run()
            if code not in (0, 1) or "Traceback" in said or "Unexpected" in said:
                failures.append((path.name, name, code, said))
            refused += code
    return failures, refused


def by_command(capfd, *arguments):
    def run():
        capfd.readouterr()
        code = call([str(each) for each in arguments])
        out, err = capfd.readouterr()
        return code, out + err

    return run


def by_function(function):
    def run():
        try:
            function()
        except UserError as error:
            return 1, str(error)
        except Exception as error:  # What the command line would say of it.
            known = find_user_error(error)
            return (4, repr(error)) if known is None else (1, str(known))
        return 0, ""

    return run


def test_a_damaged_data_set_is_verified_to_the_end(folder, capfd):
    paths = list_files(folder / "data")
    failures, refused = find_failures(paths, by_command(capfd, "verify", folder / "data"))
    assert failures == [] and refused > 60


def test_the_quarantine_of_a_damaged_data_set(folder, capfd):
    paths = [folder / "data" / name for name in ("manifest.json", "quarantine.jsonl")]
    run = by_command(capfd, "quarantine", "list", folder / "data")
    failures, refused = find_failures(paths, run)
    assert failures == [] and refused > 15


def test_records_of_a_damaged_data_set(folder):
    shard = next((folder / "data" / "Split-train").iterdir())

    def read():
        records = StoredRecords(read_index([str(shard)]))
        for row in range(len(records.index)):
            records.read(row, verify=True)

    paths = [shard, folder / "data" / "manifest.json", folder / "data" / "index.parquet"]
    failures, refused = find_failures(paths, by_function(read))
    assert failures == [] and refused > 20


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_damaged_graph_is_told_by_its_checksums(folder, capfd, command):
    paths = list_files(folder / "graph")
    assert {path.relative_to(folder / "graph").as_posix() for path in paths} > {
        *(contract.ANALYSIS, CHECKSUMS, "transform_fn/saved_model.pb"),
        *("transform_fn/variables/variables.index", "transformed_metadata/schema.pbtxt"),
    }
    run = by_command(capfd, command, folder / "graph")
    failures, refused = find_failures(paths, run)
    assert failures == [] and refused > 80


def test_a_damaged_graph_feeds_nothing(folder):
    def read():
        shards = [str(folder / "data" / "Split-train" / "*")]
        options = {"view": VIEW, "feeding": FeedingOptions(batch_size=2), "mode": "eval"}
        input_fn(shards, transform_graph_dir=str(folder / "graph"), **options)

    failures, refused = find_failures(list_files(folder / "graph"), by_function(read))
    assert failures == [] and refused > 80


def test_a_damaged_graph_of_an_earlier_version(folder, tmp_path):
    """It has no checksums, so TensorFlow finds the damage, if anybody does."""
    graph = tmp_path / "graph"
    shutil.copytree(folder / "graph", graph)
    (graph / CHECKSUMS).unlink()
    analysis = json.loads((graph / contract.ANALYSIS).read_text())
    del analysis["files"], analysis["other_labels"]
    (graph / contract.ANALYSIS).write_text(json.dumps(analysis))

    def read():
        shards = [str(folder / "data" / "Split-train" / "*")]
        options = {"view": VIEW, "feeding": FeedingOptions(batch_size=2), "mode": "eval"}
        input_fn(shards, transform_graph_dir=str(graph), **options)

    assert by_function(read)() == (0, "")
    failures, refused = find_failures([graph / contract.ANALYSIS], by_function(read))
    assert failures == [] and refused >= 9
    with damaged(graph / "transform_fn" / "saved_model.pb", MUTATIONS["truncate"], "0"):
        code, said = by_function(read)()
    assert code == 1 and said.startswith(f"the transform graph in '{graph}' is damaged (OSError: ")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("history.json", lambda run: read_history(str(run))),
        ("summary.json", lambda run: RunFolder(str(run)).read_summary()),
        (FACTS, lambda run: read_evaluation(str(run))),
    ],
    ids=["history", "summary", "facts"],
)
def test_what_a_run_wrote_for_reports(folder, name, read):
    run = folder / "run"
    failures, refused = find_failures([run / name], by_function(lambda: read(run)))
    assert failures == [] and refused >= 10
    with damaged(run / name, MUTATIONS["flip"], "1"):
        code, said = by_function(lambda: read(run))()
    assert code == 1 and said.startswith(f"'{run / name}' is damaged (")


@pytest.mark.parametrize(
    ("name", "read"), [(MISLABELLED, read_mislabelled), (OUTLIERS, read_outliers)]
)
def test_tables_of_an_evaluation(folder, name, read):
    run = by_function(lambda: read(str(folder / "run")))
    failures, refused = find_failures([folder / "run" / name], run)
    assert failures == [] and refused >= 3
    with damaged(folder / "run" / name, MUTATIONS["scramble"], "2"):
        assert run()[1].startswith(f"'{folder / 'run' / name}' is damaged (")


def test_a_damaged_checkpoint_is_not_gone_on_from(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(optimizer="adam", loss="mse")
    stored = Checkpoints(str(tmp_path), 1, Position(7, 1, 0), steps_per_epoch=10)
    stored.set_model(model)
    stored.on_epoch_end(0)
    paths = list_files(tmp_path)
    assert len(paths) == 4
    run = by_function(lambda: restore_latest(model, str(tmp_path), 7))
    failures, refused = find_failures(paths, run)
    assert failures == [] and refused > 20


def test_training_goes_on_at_no_other_place_than_was_stored(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(optimizer="adam", loss="mse")
    stored = Checkpoints(str(tmp_path), 1, Position(7, 1, 0), steps_per_epoch=10)
    stored.set_model(model)
    stored.on_epoch_end(0)
    (path,) = tmp_path.glob("*/position.json")
    for before, after in (('"epoch": 1', '"epoch": 0'), ('"step": 0', '"step": 4')):
        content = path.read_text()
        assert before in content
        path.write_text(content.replace(before, after))
        with pytest.raises(UserError, match="content_sha256 is not that of its content"):
            restore_latest(model, str(tmp_path), 7)
        path.write_text(content)


def test_a_damaged_model_answers_nothing(tmp_path, capfd):
    model = tmp_path / "model"
    shutil.copytree(export("classification"), model)
    (tmp_path / "image.png").write_bytes(encode_png(draw(1)))
    run = by_command(capfd, "predict", model, tmp_path / "image.png")
    failures = []
    for name in ("saved_model.pb", "variables/variables.index"):
        for kind in ("empty", "truncate", "make_folder", "make_loop", "delete"):
            with damaged(model / name, MUTATIONS[kind], kind):
                code, said = run()
            if code != 1 or str(model) not in said:
                failures.append((name, kind, code, said))
    assert failures == []


def test_damaged_weights_are_told(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    for name in ("w.weights.h5", "m.keras"):
        path = tmp_path / name
        (model.save_weights if "weights" in name else model.save)(path)
        run = by_function(lambda path=path: read_weights(str(path), model, f"weights={path}"))
        failures, refused = find_failures([path], run)
        assert failures == [] and refused >= 4
