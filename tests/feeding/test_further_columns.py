"""A table's further columns reach the preprocessing_fn, the batch and Keras, value by value."""

import csv

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
