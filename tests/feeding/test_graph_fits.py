"""A transform graph that was made for other classes, another view or other pixels is refused."""

import json
import shutil

import numpy as np
import pytest

from image_pipeline import api
from image_pipeline.components import contract
from image_pipeline.components.dataset.manifest import seal
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import CHECKSUMS
from image_pipeline.components.feeding.graph import TransformGraph, read_class_names
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.ingest_runs import ingest, make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)
CLASSES = {
    "own": ("cat", "dog"),
    "same": ("cat", "dog"),
    "fewer": ("dog",),
    "more": ("cat", "cow", "dog", "hen"),
    "other": ("cow", "hen"),
}


def warnings_of_ours(caplog):
    """What image_pipeline warned of; TensorFlow warns, too, of what a process did before."""
    return [
        each.getMessage()
        for each in caplog.records
        if each.levelname == "WARNING" and each.name.startswith("image_pipeline.")
    ]


def only_dogs(inputs):
    """Renames dogs, and leaves out cats: neither is a name of the vocabulary."""
    import tensorflow as tf
    import tensorflow_transform as tft

    is_dog = tf.equal(inputs["label"], "dog")
    labels = tf.where(is_dog, "hound", "")
    ids = tft.compute_and_apply_vocabulary(labels, default_value=-1, vocab_filename="label")
    return {"image": tf.cast(inputs["image"], tf.float32), "label": ids}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data sets of several classes, and graphs of the first."""
    folder = tmp_path_factory.mktemp("fits")
    for name, classes in CLASSES.items():
        images = write_folder(folder / "images" / name, classes, per_class=6 + len(name))
        ingest(images, folder / name)
    for graph, options in (
        ("graph", TransformOptions()),
        ("renamed", TransformOptions(preprocessing_fn=f"{__name__}.only_dogs")),
    ):
        run_analysis(str(folder / "own"), str(folder / graph), VIEW, options, make_pipeline)
    return folder


@pytest.mark.parametrize(("name", "ids"), [("same", {0, 1}), ("fewer", {1})])
def test_batches_of_another_data_set_with_classes_that_the_graph_knows(folder, name, ids):
    data, graph = str(folder / name), str(folder / "graph")
    read = api.batches(data, "train", graph, batch_size=4)
    assert {id_ for batch in read for id_ in batch["label"].tolist()} == ids


def test_training_on_some_of_the_analysed_data_sets_is_told(folder, tmp_path, caplog):
    both = [str(folder / name) for name in ("own", "same")]
    run_analysis(both, str(tmp_path / "graph"), VIEW, TransformOptions(), make_pipeline)

    def read(mode, *names):
        caplog.clear()
        input_fn(
            [str(folder / name / "Split-train" / "*") for name in names],
            view=VIEW,
            feeding=FeedingOptions(batch_size=4),
            transform_graph_dir=str(tmp_path / "graph"),
            mode=mode,
        )
        return warnings_of_ours(caplog)

    assert read("train", "own") == [
        f"the transform graph '{tmp_path}/graph' was made of 2 data sets, but training reads 1 of "
        "them. To train on all, give input_fn the folders of all in a list; in a run_fn these are "
        "the folders of all of fn_args.train_files."
    ]
    assert read("eval", "own") == read("train", "own", "same") == read("train", "fewer") == []


@pytest.mark.parametrize("was_exact", [False, True])
def test_a_data_set_of_another_shape_than_files_get_is_told(folder, tmp_path, caplog, was_exact):
    """As is an earlier version's graph of distorted images, which does not say so."""
    graph_dir, data_dir = str(tmp_path / "graph"), str(folder / "own")
    shutil.copytree(folder / "own", tmp_path / "exact")
    manifest = json.loads((tmp_path / "exact" / "manifest.json").read_text())
    manifest["options"]["prepare"] |= {"resize": "exact", "size_px": 8}
    (tmp_path / "exact" / "manifest.json").write_text(json.dumps(seal(manifest)))
    both = [data_dir, str(tmp_path / "exact")]
    analysed, read = both[::-1] if was_exact else both
    run_analysis(analysed, graph_dir, VIEW, TransformOptions(), make_pipeline)
    for data in (analysed, read):
        caplog.clear()
        read_labels(tmp_path, data)
        told = warnings_of_ours(caplog)
        shapes = ["not distorted", "distorted to 8 px squares"]
        served, stored = shapes[::-1] if was_exact else shapes
        assert told == [
            f"models that are exported with the transform graph '{graph_dir}' get files that are "
            f"{served}, but the images of '{read}' are {stored} (ingest.prepare: resize, size_px, "
            "enlarge); give the graph of that data set's own analysis (`image-pipeline analyze`)."
        ] * (data == read)


def test_many_graphs_in_a_process_are_no_matter_to_tensorflow(folder, caplog):
    for _ in range(6):
        graph = TransformGraph(str(folder / "graph"))
        assert graph.find_ids(["dog", "cat", "hen"]) == [1, 0, -1]
    assert "retracing" not in caplog.text


def read_labels(folder, data, graph="graph", view=VIEW, **feeding):
    batches = input_fn(
        [str(folder / data / "Split-train" / "*")],
        view=view,
        feeding=FeedingOptions(batch_size=4, **feeding),
        transform_graph_dir=str(folder / graph),
        mode="eval",
    )
    return np.concatenate([labels.numpy() for _, labels in batches])


@pytest.mark.parametrize("data", ["own", "same", "fewer"])
def test_a_data_set_of_known_classes_is_fed_whichever_it_is(folder, data):
    names = read_class_names(str(folder / "graph"))
    found = {names[number] for number in read_labels(folder, data)}
    assert found == set(CLASSES[data])


@pytest.mark.whole
@pytest.mark.parametrize("data", ["more", "other"])
def test_classes_that_the_graph_does_not_know_are_refused_by_name(folder, data):
    manifest = json.loads((folder / data / "manifest.json").read_text())
    counts = manifest["classes"]["train"]
    records = counts["cow"] + counts["hen"]
    message = rf"does not know classes of '.*/{data}': 'cow', 'hen' \({records} records\)"
    with pytest.raises(UserError, match=message):
        read_labels(folder, data)


def test_records_that_are_not_read_may_have_any_class(folder):
    chosen = {"where": 'label in ("cat", "dog")'}
    assert set(read_labels(folder, "more", select=chosen)) == {0, 1}
    with pytest.raises(UserError, match=r"does not know classes of .*: 'cow' \("):
        read_labels(folder, "more", select={"where": 'label != "hen"'})


def test_classes_that_the_analysis_told_of_are_fed_as_none(folder, tmp_path):
    """As those are that only another split of its own data set has."""
    shutil.copytree(folder / "graph", tmp_path / "graph")
    path = tmp_path / "graph" / contract.ANALYSIS
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"unknown_classes": {"eval": {"cow": 1}}, "files": None}))
    (tmp_path / "graph" / CHECKSUMS).unlink()  # As of an earlier version.
    with pytest.raises(UserError, match=r"does not know classes of .*: 'hen' \("):
        read_labels(folder, "more", tmp_path / "graph")
    no_hens = {"where": 'label != "hen"'}
    assert set(read_labels(folder, "more", tmp_path / "graph", select=no_hens)) == {0, 1, -1}


def test_labels_that_a_function_renames_or_leaves_out_are_known(folder):
    assert set(read_labels(folder, "same", "renamed")) == {0, -1}
    with pytest.raises(UserError, match=r"does not know classes of .*: 'cow', 'hen'"):
        read_labels(folder, "more", "renamed")


@pytest.mark.parametrize("change", [{"height_px": 9}, {"channels": 1}, {"crop_fraction": 0.5}])
def test_another_view_is_refused(folder, change):
    with pytest.raises(UserError, match=r"view must be what the transform graph in .* was made"):
        read_labels(folder, "own", view=VIEW.model_copy(update=change))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("sound", {"sample_rate_hz": 8000}, r"sound None, but"),
        ("depth", {"low": 9, "high": 4095}, r"depth \(0, 65535\), but .* has \(9, 4095\)"),
    ],
)
def test_values_of_another_meaning_are_refused(folder, tmp_path, option, value, message):
    manifest = json.loads((folder / "same" / "manifest.json").read_text())
    (tmp_path / "data").mkdir()
    for name in ("Split-train", "index.parquet"):
        (tmp_path / "data" / name).symlink_to(folder / "same" / name)
    manifest["options"]["prepare"][option] = value
    (tmp_path / "data" / "manifest.json").write_text(json.dumps(seal(manifest)))
    with pytest.raises(UserError, match=r"is of images with ingest\.prepare\." + message):
        read_labels(folder, str(tmp_path / "data"))
