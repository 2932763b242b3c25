"""A table's further columns reach the preprocessing_fn, the batch and Keras, value by value."""

import csv
import json
import subprocess
import sys

import keras
import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from image_pipeline.api import input_fn
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.feeding import on_two_replicas
from tests.ingest_runs import ingest, make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=10)


def class_of_age(inputs):
    """The class is young or old, whatever the label."""
    names = tf.where(inputs["age"] < 20, "young", "old")
    return {
        "image": tf.cast(inputs["image"], tf.float32),
        "label": tft.compute_and_apply_vocabulary(names, default_value=-1, vocab_filename="label"),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """40 images with their ages 0 to 39, which are also the sites' numbers in text."""
    folder = tmp_path_factory.mktemp("further")
    images = write_folder(folder / "images", per_class=20)
    with open(images / "t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "age", "site", "score"])
        for age, path in enumerate(sorted(images.rglob("*.png"))):
            writer.writerow([path.relative_to(images), path.parent.name, age, f"s{age}", age / 4])
    ingest(images / "t.csv", folder / "data")
    options = TransformOptions(
        preprocessing_fn=f"{__name__}.class_of_age", columns=("age",), analyze_splits=("train",)
    )
    run_analysis(str(folder / "data"), str(folder / "graph"), VIEW, options, make_pipeline)
    return folder


def test_the_class_follows_the_column(folder):
    graph = TransformGraph(str(folder / "graph"))
    assert sorted(graph.class_names) == ["old", "young"]
    found = input_fn(
        str(folder / "data"), "eval", str(folder / "graph"), batch_size=4, columns=["age"]
    )
    for inputs, labels in found.as_numpy_iterator():
        names = [graph.class_names[label] for label in labels]
        assert names == ["young" if age < 20 else "old" for age in inputs["age"]]


@pytest.mark.parametrize("split", ["train", "eval"])
def test_a_batch_has_the_columns_of_its_images(folder, split):
    batches = input_fn(
        str(folder / "data"),
        split,
        view=VIEW,
        batch_size=3,
        augment=[],
        columns=["age", "site", "score", "image/filename"],
    )
    index = pq.read_table(folder / "data" / "index.parquet").to_pylist()
    by_path = {row["source"].encode(): row for row in index if row["split"] == split}
    seen = []
    for inputs, labels in batches.as_numpy_iterator():
        assert inputs["image"].shape[1:] == (8, 10, 3)
        for n, path in enumerate(inputs["image/filename"]):
            row = by_path[path]
            assert labels[n] == row["label"].encode() and inputs["age"][n] == row["age"]
            assert inputs["site"][n] == row["site"].encode()
            assert inputs["score"][n] == np.float32(row["score"])
            seen.append(path)
    assert sorted(seen) == sorted(by_path)


@pytest.mark.wide
def test_keras_trains_a_model_of_image_and_column(folder):
    data = input_fn(
        str(folder / "data"), "train", str(folder / "graph"), batch_size=4, columns=["age"]
    )
    image = keras.Input((8, 10, 3), name="image")
    age = keras.Input((), name="age")
    scaled = keras.layers.Reshape((1,))(age) / 40
    output = keras.layers.Dense(2, activation="softmax")(scaled)
    model = keras.Model({"image": image, "age": age}, output)
    model.compile(
        keras.optimizers.Adam(0.5), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    history = model.fit(data, epochs=20, verbose=0)
    assert history.history["accuracy"][-1] > 0.9


def test_a_column_that_is_not_there_is_refused(folder):
    with pytest.raises(UserError, match=r"feeding.columns names 'agee', .* did you mean age"):
        input_fn(str(folder / "data"), view=VIEW, columns=["agee"])
    options = TransformOptions(columns=("agee",))
    with pytest.raises(UserError, match=r"transform.columns names 'agee', .* did you mean age"):
        run_analysis(str(folder / "data"), str(folder / "g"), VIEW, options, make_pipeline)


LISTS = on_two_replicas.LISTS


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """40 images with 17 lists of numbers, a list of words, and a column called as lengths are."""
    lists = tmp_path_factory.mktemp("lists")
    images = write_folder(lists / "images", per_class=20)
    rows = []
    for number, path in enumerate(sorted(images.rglob("*.png"))):
        row = {"path": path.relative_to(images).as_posix(), "label": path.parent.name}
        row |= {name: list(range(at, (number + at) % 6 + at)) for at, name in enumerate(LISTS)}
        rows.append(row | {"words": ["w"] * (number % 3), "words_length": 1, "n": number})
    (images / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(images / "t.jsonl", lists / "data")
    return lists


def test_lists_are_padded_to_the_longest_of_their_batch(lists):
    index = pq.read_table(lists / "data/index.parquet").to_pylist()
    rows = {row["n"]: row for row in index if row["split"] == "eval"}
    view, columns = ViewOptions(height_px=8, width_px=8), ["n", "list_3", "words"]
    options = {"view": view, "batch_size": 5, "columns": columns}
    seen = []
    for inputs, _ in input_fn(str(lists / "data"), "eval", **options).as_numpy_iterator():
        assert inputs.keys() == {"image", *columns, "list_3_length", "words_length"}
        expected = [rows[number] for number in inputs["n"].tolist()]
        for name, fill in (("list_3", 0), ("words", b"")):
            lists = [row[name] for row in expected]
            longest = max(map(len, lists))
            assert inputs[f"{name}_length"].dtype == np.int64
            assert inputs[f"{name}_length"].tolist() == list(map(len, lists))
            assert inputs[name].shape == (len(lists), longest)
            for fed, values in zip(inputs[name].tolist(), lists, strict=True):
                own = [each.encode() if isinstance(each, str) else each for each in values]
                assert fed == own + [fill] * (longest - len(own))
        seen += inputs["n"].tolist()
    assert sorted(seen) == sorted(rows)


def test_a_column_that_is_called_as_lengths_are_is_refused(lists):
    with pytest.raises(UserError, match="names 'words_length', which is what the lengths"):
        input_fn(str(lists / "data"), "eval", columns=["words", "words_length"])


@pytest.mark.wide
def test_two_replicas_read_17_lists_without_sparse_tensors_and_with_the_same_loss(lists):
    command = [sys.executable, on_two_replicas.__file__, lists / "data"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["replicas"] == 2 and len(told["one"]) == on_two_replicas.STEPS
    np.testing.assert_allclose(told["two"], told["one"], rtol=1e-5)
    sparse = {name for name in told["operations"] if "SerializeSparse" in name}
    assert not sparse and not told["traced_sparse"] and told["traced_parsing"]
    assert "SerializeSparse" in told["operations_of_sparse"]  # What would have been seen.
