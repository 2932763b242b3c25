"""The Python API gives what the command line and TFX's components give, bit for bit."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
from tfx import v1 as tfx

from image_pipeline.api import (
    analyze,
    check_model,
    export_model,
    ingest,
    input_fn,
    predict,
    random_access,
    steps_per_epoch,
)
from image_pipeline.components import progress
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.input_fn import input_fn as read_batches
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.ingest.component import ImageExampleGen
from image_pipeline.components.transform.component import ImageTransform
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.config import load_config
from tests.drawings import write_folder
from tests.pipeline.test_cli import call

pytestmark = pytest.mark.e2e

CONFIG = """
ingest: {prepare: {encoding: png}, splits: {train: 0.7, eval: 0.3}, shards: 2}
view: {height_px: 8, width_px: 6}
transform: {batch_size: 5}
feeding: {batch_size: 4, augment: [flip_horizontal]}
training: {seed: 5}
"""
VIEW = ViewOptions(height_px=8, width_px=6)
FEEDING = FeedingOptions(batch_size=4, augment=["flip_horizontal"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images, options, and `data` and `graph` as the API makes them of these."""
    folder = tmp_path_factory.mktemp("api")
    write_folder(folder / "images")
    (folder / "config.yaml").write_text(CONFIG)
    config = str(folder / "config.yaml")
    made = ingest(str(folder / "images"), str(folder / "data"), config=config)
    found = analyze(str(folder / "data"), str(folder / "graph"), config=config)
    (folder / "summaries.json").write_text(json.dumps([made, found]))
    return folder


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: check_model("graph", {}),
            "graph_dir must be a path or another text, got {}; the arguments are "
            "check_model(model, graph_dir).",
        ),
        (
            lambda: export_model(None, "graph", folder=None),
            "folder must be a path or another text, got None; the arguments are "
            "export_model(model, graph_dir, folder).",
        ),
        (
            lambda: input_fn(b"data"),
            "data_dir must be a path or another text, or a list of them, got <4 bytes>; the "
            "arguments are input_fn(data_dir, split, graph_dir).",
        ),
        (
            lambda: steps_per_epoch(["data", 1]),
            "data_dir must be a path or another text, or a list of them, got ['data', 1]; the "
            "arguments are steps_per_epoch(data_dir, split).",
        ),
    ],
    ids=["swapped", "none", "bytes", "not all"],
)
def test_what_stands_where_text_belongs_is_told_by_its_name(call, message):
    with pytest.raises(UserError) as raised:
        call()
    assert str(raised.value) == message


def test_paths_may_be_objects(folder, tmp_path):
    config = folder / "config.yaml"
    made = ingest(folder / "images", tmp_path / "data", config=config)
    assert made["written"] == json.loads((folder / "summaries.json").read_text())[0]["written"]
    analyze(tmp_path / "data", graph_dir=tmp_path / "graph", config=config)
    batches = input_fn(tmp_path / "data", "train", tmp_path / "graph", config=config)
    assert len(batches) == steps_per_epoch(tmp_path / "data", config=config)
    assert len(random_access(tmp_path / "data")) > 0


def test_several_data_sets_are_read_together(folder, tmp_path):
    write_folder(tmp_path / "images", per_class=3)
    ingest(tmp_path / "images", tmp_path / "more", config=folder / "config.yaml")
    folders, config = [folder / "data", tmp_path / "more"], str(folder / "config.yaml")
    batches = input_fn(folders, "train", str(folder / "graph"), config=config)
    expected = read_batches(
        [f"{each}/Split-train/*" for each in folders],
        view=VIEW,
        feeding=FEEDING,
        transform_graph_dir=str(folder / "graph"),
        mode="train",
        seed=5,
    )
    _assert_equal(_numbers(batches), _numbers(expected))
    records = sum(len(random_access(each)) for each in folders)
    assert steps_per_epoch(folders, batch_size=1) == records > len(random_access(folders[0]))
    with pytest.raises(UserError, match=rf"feeding\.mix: .*'{folders[1]}'"):
        input_fn(folders, view=VIEW, mix={str(folders[0]): 1})


@pytest.fixture(scope="module")
def artifacts(folder):
    """Folders of the examples and the graph that TFX's runner makes of the same."""
    config = load_config(str(folder / "config.yaml"))
    gen = ImageExampleGen(str(folder / "images"), config.ingest, "1")
    transform = ImageTransform(gen.outputs["examples"], config.view, config.transform)
    database = tfx.orchestration.metadata.sqlite_metadata_connection_config(f"{folder}/tfx.db")
    tfx.orchestration.LocalDagRunner().run(
        tfx.dsl.Pipeline(
            "api",
            str(folder / "tfx"),
            components=[gen, transform],
            metadata_connection_config=database,
            beam_pipeline_args=list(LOCAL_BEAM_ARGS),
        )
    )
    (examples,) = folder.glob("tfx/ImageExampleGen/examples/*")
    (graph,) = folder.glob("tfx/ImageTransform/transform_graph/*")
    return examples, graph


def _contents(folder):
    """Each file's bytes by its path below the folder; logs, whose names begin with a dot, apart."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _numbers(batches):
    return [(images.numpy(), labels.numpy()) for images, labels in batches]


def _assert_equal(some, others):
    assert len(some) == len(others) > 0
    for (images, labels), (other_images, other_labels) in zip(some, others, strict=True):
        np.testing.assert_array_equal(images, other_images)
        np.testing.assert_array_equal(labels, other_labels)


@pytest.mark.wide
def test_the_data_set_is_the_command_lines_and_the_components(folder, artifacts):
    arguments = ("--images", folder / "images", "--output", folder / "by_command")
    done = call("ingest", *arguments, "--config", folder / "config.yaml")
    assert done.returncode == 0, done.stderr
    contents = _contents(folder / "data")
    assert {"manifest.json", "index.parquet"} < contents.keys()
    assert contents == _contents(folder / "by_command") == _contents(artifacts[0])


@pytest.mark.wide
def test_the_analysis_is_the_command_lines_and_the_components(folder, artifacts):
    arguments = (folder / "data", "--output", folder / "graph_by_command", "--json")
    done = call("analyze", *arguments, "--config", folder / "config.yaml")
    assert done.returncode == 0, done.stderr
    analysis = json.loads((folder / "graph" / "analysis.json").read_text())
    assert analysis == json.loads((artifacts[1] / "analysis.json").read_text())
    assert analysis == json.loads((folder / "graph_by_command" / "analysis.json").read_text())
    by_command = json.loads(done.stdout)
    by_function = json.loads((folder / "summaries.json").read_text())[1]
    for summary in (by_command, by_function):
        assert summary["seconds"] > 0 and summary["peak_rss_mb"] > 0
        assert {key: summary[key] for key in analysis} == analysis


@pytest.mark.parametrize("split", ["train", "eval"])
def test_batches_are_those_of_the_pipelines_input_fn(folder, split):
    batches = input_fn(
        str(folder / "data"), split, str(folder / "graph"), config=str(folder / "config.yaml")
    )
    expected = read_batches(
        [f"{folder}/data/Split-{split}/*"],
        view=VIEW,
        feeding=FEEDING,
        transform_graph_dir=str(folder / "graph"),
        mode=split,
        seed=5,
    )
    _assert_equal(_numbers(batches), _numbers(expected))


def test_summaries_tell_of_all_files(folder):
    made, found = json.loads((folder / "summaries.json").read_text())
    assert [made[key] for key in ("found", "written", "duplicates", "quarantined")] == [
        20,
        20,
        0,
        0,
    ]
    assert found["records"] == made["splits"]["train"]
    assert {row["name"] for row in found["classes"]} == {"cat", "dog"}


def test_the_analysis_counts_what_it_reads(folder, tmp_path):
    progress.end()
    found = analyze(str(folder / "data"), str(tmp_path), view=VIEW)
    assert progress.look() == progress.Progress("images", found["records"], found["records"])


@pytest.mark.wide
@pytest.mark.parametrize("command", ["ingest", "analyze"])
def test_quiet_prints_nothing(folder, tmp_path, command):
    given = ["--images", folder / "images"] if command == "ingest" else [folder / "data"]
    options = ("--output", tmp_path, "--quiet", "--config", folder / "config.yaml")
    done = call(command, *given, *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_keywords_are_options_and_override_the_configuration(folder, tmp_path):
    config = str(folder / "config.yaml")
    made = ingest(str(folder / "images"), str(tmp_path), config=config, shards=1)
    assert made["shards"] == {"train": 1, "eval": 1}
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["options"]["prepare"]["encoding"] == "png"
    half = analyze(str(tmp_path), str(tmp_path / "graph"), view=VIEW, analyze_fraction=0.5)
    assert half["records"] < made["splits"]["train"]
    assert half["view"] == VIEW.model_dump()


def _first(folder, *arguments, **keywords):
    return next(input_fn(str(folder / "data"), *arguments, **keywords).as_numpy_iterator())


def test_without_a_graph_batches_are_pixels_and_names(folder):
    images, labels = _first(folder, view={"height_px": 5, "width_px": 7}, batch_size=3)
    assert (images.shape, images.dtype) == ((3, 5, 7, 3), np.uint8)
    assert set(labels) <= {b"cat", b"dog"}


def test_the_view_is_the_graphs_unless_it_is_asked_for(folder):
    graph = str(folder / "graph")
    images, _ = _first(folder, "eval", graph, batch_size=2)
    assert images.shape == (2, 8, 6, 3)
    with pytest.raises(UserError, match="view must be what the transform graph in"):
        _first(folder, "eval", graph, view={"height_px": 9, "width_px": 6})


def test_mode_seed_and_place_are_passed_on(folder):
    data, common = str(folder / "data"), {"view": VIEW, "batch_size": 4}
    whole = _numbers(input_fn(data, epochs=2, seed=3, **common))
    rest = _numbers(input_fn(data, first_epoch=1, first_step=1, seed=3, **common))
    _assert_equal(whole[len(whole) // 2 + 1 :], rest)
    part = _numbers(input_fn(data, worker=1, workers=2, seed=3, **common))
    np.testing.assert_array_equal(part[0][0], whole[0][0][2:])
    shuffled = _numbers(input_fn(data, "eval", mode="train", seed=3, **common))
    assert any((a[0] != b[0]).any() for a, b in zip(shuffled, _eval(data, common), strict=True))


def test_a_seed_of_0_is_one(folder, tmp_path):
    (tmp_path / "c.yaml").write_text("training: {seed: 5}")
    data, common = str(folder / "data"), {"view": VIEW, "batch_size": 4}
    configured = common | {"config": str(tmp_path / "c.yaml")}
    _assert_equal(
        _numbers(input_fn(data, seed=0, **configured)), _numbers(input_fn(data, seed=0, **common))
    )
    _assert_equal(
        _numbers(input_fn(data, **configured)), _numbers(input_fn(data, seed=5, **common))
    )


def test_a_second_iteration_is_the_next_epoch_or_the_same(folder):
    data, common = str(folder / "data"), {"view": VIEW, "batch_size": 4, "seed": 3}
    going_on, same = input_fn(data, **common), input_fn(data, again="same", **common)
    _assert_equal(
        _numbers(going_on) + _numbers(going_on), _numbers(input_fn(data, epochs=2, **common))
    )
    _assert_equal(_numbers(same), _numbers(same))


@pytest.mark.parametrize("remainder", ["keep", "drop"])
def test_the_steps_of_an_epoch_are_counted(folder, remainder):
    data, common = str(folder / "data"), {"batch_size": 3, "remainder": remainder}
    for split in ("train", "eval"):
        batches = input_fn(data, split, view=VIEW, **common)
        steps = steps_per_epoch(data, split, **common)
        assert steps == len(_numbers(batches)) == int(batches.cardinality())


def _eval(data, common):
    return _numbers(input_fn(data, "eval", **common))


def test_a_loop_of_ones_own_may_have_what_the_trainer_may_not(folder):
    graph = str(folder / "graph")
    images, _ = _first(folder, "train", graph, batch_size=2, dtype="uint8", layout="NCHW")
    assert (images.shape, images.dtype) == ((2, 3, 8, 6), np.uint8)


_VIEW_MUST = (
    r"^view must be the options of `view`, such as {\"height_px\": 64, \"width_px\": 64}, got "
    r"\(64, 64\)\.$"
)


@pytest.mark.parametrize(
    ("function", "arguments", "keywords", "message"),
    [
        (ingest, ("{}/none", "{}/o"), {}, "does not exist"),
        (ingest, ("{}/images", "{}/o"), {"shard": 2}, r"ingest.shard: unknown key; did you mean"),
        (ingest, ("{}/images", "{}/images/o"), {}, "the next run would read it as images"),
        (analyze, ("{}/none", "{}/o"), {}, "none"),
        (analyze, ("{}/data", "{}/o"), {"batch_size": 0}, "transform.batch_size: .*, got 0"),
        (input_fn, ("{}/data", "test"), {}, "got .test.; known: train, eval"),
        (input_fn, ("{}/data",), {"batch_size": -1}, "feeding.batch_size: .*, got -1"),
        *(
            (function, ("{}/data", last), {"view": (64, 64)}, _VIEW_MUST)
            for function, last in ((analyze, "{}/o"), (input_fn, "train"))
        ),
    ],
)
def test_a_mistake_is_one_clear_message(folder, function, arguments, keywords, message):
    with pytest.raises(UserError, match=message):
        function(*(argument.format(folder) for argument in arguments), **keywords)


def test_random_numbers_of_a_script_are_those_without_it(folder, tmp_path):
    """Such as Keras's initial weights after `keras.utils.set_random_seed`."""
    images, data = str(folder / "images"), str(tmp_path / "data")
    calls = (
        lambda: ingest(images, data),
        lambda: analyze(data, str(tmp_path / "graph"), view=VIEW),
    )
    for each in calls:
        random.seed(7)
        np.random.seed(7)
        python, numpy = random.getstate(), np.random.get_state()
        each()
        assert random.getstate() == python
        np.testing.assert_equal(np.random.get_state(), numpy)


_UNUSABLE = """
import sys
from image_pipeline.api import ingest
ingest(*sys.argv[1:])
"""


def test_a_mistake_found_by_a_stage_comes_without_beams_traceback(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "a.jpg").write_text("no picture")
    done = subprocess.run(
        [sys.executable, "-c", _UNUSABLE, str(tmp_path / "images"), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1 and "apache_beam" not in done.stderr
    told = (
        "image_pipeline.components.errors.UserError: None of the 1 files found is a usable image:"
    )
    assert told in done.stderr.splitlines()


@pytest.mark.parametrize("given", [{"top": 0}, {"batch_size": 0}, {"batch_size": -3}])
def test_predict_takes_numbers_from_one_on(tmp_path, given):
    ((name, value),) = given.items()
    with pytest.raises(UserError, match=rf"predict\.{name}: .*greater than 0, got {value}"):
        predict(str(tmp_path), "photos", **given)
