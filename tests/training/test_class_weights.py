"""Weights for the loss: the graph's, by class id, and what they change."""

import json
import math
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.training import model_check, trainer
from image_pipeline.components.training.unknown import read_class_weights, weigh_records
from image_pipeline.components.transform.preprocessing import standardize
from image_pipeline.components.views.options import ViewOptions
from tests import graphs, shards
from tests.transform.analyze import analyze

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def graph_dir(tmp_path_factory):
    """Of three cats and one dog: cats weigh 4 / (2 · 3), dogs 4 / (2 · 1)."""
    folder = str(tmp_path_factory.mktemp("graph"))
    images = np.arange(4 * 192, dtype=np.int64).reshape(4, 8, 8, 3).astype(np.uint8)
    batch = (images, [b"cat", b"cat", b"dog", b"cat"])
    analyze(folder, [batch], standardize, ViewOptions(height_px=8, width_px=8))
    return folder


def test_weights_come_in_the_order_of_the_ids(graph_dir):
    weights = read_class_weights(graph_dir, ["cat", "dog"])
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights, np.array([4 / 6, 4 / 2], np.float32))


def test_a_graph_without_weights_is_explained():
    with pytest.raises(UserError, match=r"2 classes, .* has those of 0; number labels"):
        read_class_weights(graphs.shared_graph_dir(), ["cat", "dog"])


def test_every_record_gets_its_classs_weight_and_an_unknown_one_none():
    batches = tf.data.Dataset.from_tensors((tf.zeros([4, 2]), tf.constant([1, 0, -1, 1], tf.int64)))
    ((images, ids, weights),) = weigh_records(batches, np.array([0.5, 3], np.float32))
    assert images.shape == [4, 2] and ids.numpy().tolist() == [1, 0, -1, 1]
    assert weights.numpy().tolist() == [3, 0.5, 0, 3]


def test_shares_of_classes_weigh_as_their_classes_do():
    shares = tf.constant([[0, 1], [1, 0], [0, 0], [0.25, 0.75]], tf.float32)
    batches = tf.data.Dataset.from_tensors((tf.zeros([4, 2]), shares))
    ((_, labels, weights),) = weigh_records(batches, np.array([0.5, 3], np.float32))
    assert labels.numpy().tolist() == shares.numpy().tolist()
    assert weights.numpy().tolist() == [3, 0.5, 0, 2.375]


def build_undecided_model(input_shape, num_classes, options):
    """Gives every class the same probability, and stays there: the loss is log 2 a record."""
    inputs = keras.Input(input_shape)
    flat = keras.layers.Flatten()(inputs)
    dense = keras.layers.Dense(num_classes, "softmax", kernel_initializer="zeros")
    model = keras.Model(inputs, dense(flat))
    model.compile(
        optimizer=keras.optimizers.SGD(options.learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(ignore_class=-1),
    )
    return model


@pytest.mark.wide
@pytest.mark.parametrize(
    ("option", "expected"),
    # Six cats and three dogs are trained on: their weights' mean is not 1.
    [
        ({}, 1),
        ({"class_weights": "none"}, 1),
        ({"class_weights": "balanced"}, (6 * 2 / 3 + 3 * 2) / 9),
    ],
    ids=str,
)
def test_the_option_weighs_the_training_loss_and_no_other(
    graph_dir, tmp_path, monkeypatch, option, expected
):
    monkeypatch.setattr(trainer, "export_model", lambda *_: None)
    model = f"{__name__}.build_undecided_model"
    monkeypatch.setattr(
        model_check, "find_builder", lambda path, head: {model: build_undecided_model}[path]
    )
    examples = shards.make_examples(9, ["cat", "cat", "dog"])
    fn_args = types.SimpleNamespace(
        train_files=[shards.write_shards(tmp_path / "Split-train", examples)],
        eval_files=[shards.write_shards(tmp_path / "Split-eval", shards.make_examples(3))],
        transform_graph_path=graph_dir,
        serving_model_dir=str(tmp_path / "serving"),
        model_run_dir=str(tmp_path / "run"),
        custom_config={
            "view": {"height_px": 8, "width_px": 8},
            "feeding": {"batch_size": 4},
            "training": {"model": model, "epochs": 1, "learning_rate": 1e-12, **option},
        },
    )
    trainer.run_fn(fn_args)
    history = json.loads(pathlib.Path(fn_args.model_run_dir, "history.json").read_text())
    assert history["metrics"]["loss"] == [pytest.approx(expected * math.log(2), rel=1e-5)]
    assert history["metrics"]["val_loss"] == [pytest.approx(math.log(2), rel=1e-5)]
