"""Records of unknown class: loss and metrics are those of the other records, whatever they are."""

import json
import math
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.model import build_model
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training import model_check, trainer
from image_pipeline.components.training.unknown import (
    count_unknown,
    has_class,
    leave_out_unknown,
    read_class_weights,
    weigh_records,
)
from image_pipeline.components.transform.preprocessing import standardize
from image_pipeline.components.views.options import ViewOptions
from tests import graphs, shards
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.tiers import wide
from tests.training.test_trainer import make_fn_args, train
from tests.transform.analyze import analyze

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)
IMAGES = np.random.default_rng(0).random((12, 6)).astype(np.float32)
# Batches of four: two unknown, all, none; so the means of batches have other weights than 4.
LABELS = np.array([0, -1, 2, -1, -1, -1, -1, -1, 1, 1, 0, 2])
WEIGHTS = np.linspace(0.5, 2, 12).astype(np.float32)
KNOWN = LABELS >= 0


def make_model(loss="sparse_categorical_crossentropy", **compiled):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, activation="softmax")])
    metrics = ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top")]
    model.compile(keras.optimizers.SGD(0.5), loss, metrics=metrics, **compiled)
    return model


def batches(keep=slice(None), size=4, weights=False):
    columns = (IMAGES[keep], LABELS[keep], *([WEIGHTS[keep]] if weights else []))
    return tf.data.Dataset.from_tensor_slices(columns).batch(size)


def wrong_if_wrong(labels, outputs):
    """A loss of a person's own."""
    chosen = tf.one_hot(tf.cast(tf.reshape(labels, [-1]), tf.int32), 3)
    return tf.reduce_sum((outputs - chosen) ** 2, axis=-1)


@pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("jit_compile", [False, True], ids=["", "xla"])
@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        keras.losses.SparseCategoricalCrossentropy(reduction="sum_over_batch_size"),
        keras.losses.SparseCategoricalCrossentropy(ignore_class=-1),
        wrong_if_wrong,
    ],
    ids=["name", "object", "ignore_class", "own"],
)
def test_evaluation_is_that_of_the_known_records_alone(loss, jit_compile, weights):
    further = {"weighted_metrics": [keras.metrics.SparseCategoricalAccuracy(name="weighted")]}
    options = {"jit_compile": jit_compile, **(further if weights else {})}
    model = make_model(loss, **options)
    alone = make_model(loss, **options)
    alone.set_weights(model.get_weights())
    leave_out_unknown(model)
    found = model.evaluate(batches(weights=weights), verbose=0, return_dict=True)
    expected = alone.evaluate(batches(KNOWN, 6, weights), verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert {"loss", "accuracy", "top"} <= set(found)


def wrong_on_average(labels, outputs):
    """A loss of one number, which of no rows is NaN."""
    return tf.reduce_mean(wrong_if_wrong(labels, outputs))


def test_a_batch_of_unknown_records_alone_has_a_loss_of_0_whatever_the_loss():
    model = make_model(wrong_on_average)
    leave_out_unknown(model)
    assert model.compute_loss(IMAGES[:2], tf.constant([-1, -1]), model(IMAGES[:2])).numpy() == 0


class OwnStep(keras.Model):
    """As Keras's guide writes a `train_step`: with a tracker and a loss of its own."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3, activation="softmax")
        self.own_tracker = keras.metrics.Mean(name="loss")

    def call(self, images):
        return self.dense(images)

    @property
    def metrics(self):
        return [self.own_tracker]

    def train_step(self, data):
        images, labels = data
        with tf.GradientTape() as tape:
            outputs = self(images, training=True)
            loss = keras.losses.sparse_categorical_crossentropy(labels, outputs)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.own_tracker.update_state(loss)
        return {"loss": self.own_tracker.result()}


def test_a_model_with_a_train_step_of_its_own_is_trained_by_it():
    model = OwnStep()
    model.compile(keras.optimizers.SGD(0.1))
    leave_out_unknown(model)
    history = model.fit(batches(KNOWN), epochs=1, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_training_is_that_of_the_known_records_alone():
    model, alone = make_model(), make_model()
    leave_out_unknown(model)
    history = model.fit(batches(), epochs=2, verbose=0).history
    # The same batches without their unknown records; the one that has no other changes nothing.
    parts = [batches(np.flatnonzero(KNOWN & (np.arange(12) // 4 == n))) for n in (0, 2)]
    expected = alone.fit(parts[0].concatenate(parts[1]), epochs=2, verbose=0).history
    for name, values in expected.items():
        assert history[name] == pytest.approx(values, rel=1e-5)
    for mine, other in zip(model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_losses_are_computed_from_logits_as_without_it():
    """Of probabilities Keras would clip at 1e-7, so this loss would be 16.1."""
    model = make_model()
    model.set_weights([np.zeros((6, 3), np.float32), np.array([0, 100, 0], np.float32)])
    leave_out_unknown(model)
    images, labels = np.zeros((2, 6), np.float32), np.array([0, -1])
    assert model.evaluate(images, labels, verbose=0)[0] == pytest.approx(100)


def test_the_default_models_accuracy_leaves_them_out_by_itself():
    model = build_model((8, 8, 1), 2, TrainingOptions())
    images = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    known = model.evaluate(images[:2], np.array([0, 1]), verbose=0)
    with_unknown = model.evaluate(images, np.array([0, 1, -1]), verbose=0)
    assert with_unknown == pytest.approx(known, rel=1e-5)
    shares = np.array([[1, 0], [0, 1], [0, 0]], np.float32)
    assert model.evaluate(images, shares, verbose=0)[1] == pytest.approx(known[1])
    weighed = model.evaluate(images, np.array([0, 1, -1]), sample_weight=np.ones(3), verbose=0)
    assert weighed[1] == pytest.approx(known[1])


def test_who_has_a_class():
    assert has_class(tf.constant([0, -1, 3])).numpy().tolist() == [True, False, True]
    assert has_class(tf.constant([[0], [-1]])).numpy().tolist() == [True, False]
    shares = tf.constant([[0.25, 0.0], [0.0, 0.0]])
    assert has_class(shares).numpy().tolist() == [True, False]


@pytest.mark.parametrize("name", ["build_linear_model", wide("build_dropout_model")])
def test_training_takes_records_of_unknown_class_and_counts_them(name, tmp_path):
    """Keras's own sparse cross entropy would fail on the id -1."""
    fn_args = make_fn_args(tmp_path, training={"model": f"tests.training.models.{name}"})
    labels = ["cat", "dog", "zebra"]
    fn_args.train_files = [shards.write_shards(tmp_path / "t", shards.make_examples(9, labels))]
    fn_args.eval_files = [shards.write_shards(tmp_path / "e", shards.make_examples(7, labels))]
    trainer.run_fn(fn_args)
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert all(np.isfinite(values).all() for values in history["metrics"].values())
    assert history["unknown_records"] == {"train": 3, "eval": 2}


@pytest.mark.wide
def test_without_an_unknown_record_nothing_is_changed(tmp_path, monkeypatch):
    history, _ = train(tmp_path / "a")
    monkeypatch.setattr(trainer, "leave_out_unknown", lambda model: 1 / 0)
    monkeypatch.setattr(trainer, "count_unknown", lambda *_: 0)
    again, _ = train(tmp_path / "b")
    for name, values in history["metrics"].items():
        assert again["metrics"][name] == pytest.approx(values, rel=1e-5), name


def test_an_index_of_a_scan_tells_how_many(tmp_path):
    examples = shards.make_examples(5, ["zebra", "cat"])
    pattern = shards.write_shards(tmp_path / "Split-train", examples)
    graph = graphs.shared_graph_dir()
    assert count_unknown([pattern], FeedingOptions(), graph, "train") == 3


def test_an_index_tells_how_many_of_the_records_that_are_read(tmp_path):
    images = write_folder(tmp_path / "images", ["cat", "dog", "emu", "zebra"], per_class=5)
    ingest(images, tmp_path / "data", splits={"train": 0.5, "eval": 0.5})

    def count(split, mode="eval", **options):
        files = [str(tmp_path / "data" / f"Split-{split}" / "*")]
        feeding = FeedingOptions(**options)
        return count_unknown(files, feeding, graphs.shared_graph_dir(), mode)

    assert count("train") + count("eval") == count("train", "train") + count("eval") == 10
    cats_and_emus = {"select": {"where": 'label in ("cat", "emu")'}}
    assert count("train", **cats_and_emus) + count("eval", **cats_and_emus) == 5


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
