"""The last stage's checks, its publishing, and what is there if it fails."""

import collections
import itertools
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from image_pipeline.components import contract, files
from image_pipeline.components.errors import UserError
from image_pipeline.components.transform import run
from image_pipeline.components.transform.analysed_sets import read_spans
from image_pipeline.components.transform.finish import check_classes, check_graph, finish_graph
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import plan_graph, run_analysis
from image_pipeline.components.transform.statistics import name_statistic
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.graphs import shared_graph_dir, write_graph
from tests.ingest_runs import ingest
from tests.transform import bad_functions
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)
VIEWS = {
    "image": np.arange(192, dtype=np.uint8).reshape(1, 8, 8, 3),
    "label": np.array([b"cat"], object),
}
LAST = (contract.ANALYSIS, "transform_fn/saved_model.pb")


def dims(inputs):
    return _scale(inputs, tf.constant(510.0))


def divides_by_zero_for_white(inputs):
    image = tf.cast(inputs["image"], tf.float32)
    return _scale(inputs, 255 - tf.reduce_mean(image, axis=[1, 2, 3], keepdims=True))


def has_a_statistic_of_nothing(inputs):
    nothing = tft.min(tf.cast(inputs["image"], tf.float32)) * 0.0
    by = tf.constant(1.0) + 0 * tf.math.multiply_no_nan(name_statistic("share", nothing / 0.0), 0.0)
    return _scale(inputs, by)


def _scale(inputs, by):
    label = tft.compute_and_apply_vocabulary(inputs["label"], vocab_filename="label")
    return {"image": tf.cast(inputs["image"], tf.float32) / by, "label": label}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finish")
    ingest(write_folder(folder / "images"), folder / "data")
    return str(folder / "data")


def _analyze(data, graph, function):
    options = TransformOptions(preprocessing_fn=f"{__name__}.{function.__name__}")
    return run_analysis(data, str(graph), VIEW, options, make_pipeline)


@pytest.fixture(scope="module")
def made(data, tmp_path_factory):
    """The folder of a graph; to be read."""
    folder = tmp_path_factory.mktemp("made")
    _analyze(data, folder, dims)
    return folder


def _read_all(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_graph_that_fails_its_check_leaves_the_earlier_one(data, made, tmp_path):
    with pytest.raises(UserError, match="must return finite numbers, got NaN or infinity"):
        _analyze(data, tmp_path, divides_by_zero_for_white)
    assert _read_all(tmp_path) == {}
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    earlier = _read_all(tmp_path)
    assert earlier.keys() > {*LAST, "transformed_metadata/schema.pbtxt"}
    with pytest.raises(UserError, match="must return finite numbers, got NaN or infinity"):
        _analyze(data, tmp_path, divides_by_zero_for_white)
    assert _read_all(tmp_path) == earlier


def test_a_graph_is_whole_or_cannot_be_taken_for_one_wherever_its_writing_stops(
    data, made, tmp_path, monkeypatch
):
    parts = [str(made / name) for name in ("transform_fn", "transformed_metadata")]
    shutil.copytree(made, tmp_path / "graph")
    made = _read_all(made)
    _, task = plan_graph(
        str(tmp_path / "graph"), VIEW, TransformOptions(preprocessing_fn=f"{__name__}.dims"), ()
    )
    spans = read_spans([data], VIEW, task.options)
    real = files.os.replace
    for stops_at in range(len(made)):  # Each try repeats what the one before left.
        writes = itertools.count()

        def stop(source, target, writes=writes, stops_at=stops_at):
            if str(tmp_path) in target and next(writes) == stops_at:
                raise KeyboardInterrupt
            real(source, target)

        monkeypatch.setattr(files.os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            finish_graph(*parts, spans, [], task)
        left = _read_all(tmp_path / "graph").keys()
        assert contract.ANALYSIS not in left
        assert LAST[1] not in left or left == made.keys() - {contract.ANALYSIS}
    monkeypatch.setattr(files.os, "replace", real)
    finish_graph(*parts, spans, [], task)
    assert _read_all(tmp_path / "graph") == made


def test_a_statistic_that_is_not_finite_is_refused(data, tmp_path):
    with pytest.raises(
        UserError, match=r"the statistic share of .* must be finite, got nan; guard"
    ):
        _analyze(data, tmp_path, has_a_statistic_of_nothing)


def test_a_good_graph_passes():
    check_graph(shared_graph_dir(), VIEWS, "pkg.fn")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("batch_mean", r"makes 'image' of an image depend on its neighbours"),
        ("nan_on_black", r"got NaN or infinity in 'image' for a black image"),
        ("two_rows_an_image", r"one row of 'image' for each image, got \[6, 8, 8, 3\] for 3"),
        ("pairs_only", r"fails on a batch of 3: .*it must take batches of any size"),
    ],
)
def test_a_bad_graph_is_refused(tmp_path, function, message):
    folder = write_graph(tmp_path, preprocessing_fn=getattr(bad_functions, function))
    with pytest.raises(UserError, match=message):
        check_graph(folder, VIEWS, "pkg.fn")


def test_a_record_that_reading_drops_is_named(tmp_path, monkeypatch):
    real = run.read_view_batches

    def read_all_but_one(*arguments):
        for number, batch in enumerate(real(*arguments)):
            yield batch.slice(1) if number == 0 else batch

    monkeypatch.setattr(run, "read_view_batches", read_all_but_one)
    manifest = ingest(write_folder(tmp_path / "images"), tmp_path / "data", shards=1)
    records = manifest.splits["train"].records
    message = f"Stage ReadViews lost records: {records} in, {records - 1} out"
    with pytest.raises(UserError, match=message):
        run_analysis(
            str(tmp_path / "data"), str(tmp_path / "out"), VIEW, TransformOptions(), make_pipeline
        )


def _span(**analysed):
    return types.SimpleNamespace(analysed=collections.Counter(analysed))


def _rows(**counted):
    return [{"name": name, "records": count} for name, count in counted.items()]


def test_classes_that_add_up_over_all_spans_pass():
    check_classes(_rows(cat=5, dog=2), [_span(cat=3, dog=2), _span(cat=2)])


def test_labels_that_no_vocabulary_holds_are_not_missed():
    check_classes(_rows(cat=1), [_span(**{"cat": 1, "": 4, "two\nlines": 2})])


@pytest.mark.parametrize(
    ("counted", "message"),
    [
        ({"cat": 4, "dog": 2}, "Stage Analyze lost records of 1 classes, .* 'cat': 5 in, 4 out"),
        ({"cat": 5}, "Stage Analyze lost records of 1 classes, .* 'dog': 2 in, 0 out"),
        ({"cat": 5, "dog": 2, "cow": 1}, "'cow': 0 in, 1 out"),
    ],
)
def test_what_one_branch_of_the_analysis_loses_is_named(counted, message):
    with pytest.raises(UserError, match=message):
        check_classes(_rows(**counted), [_span(cat=5, dog=2)])
