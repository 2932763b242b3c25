"""What people do with Keras's own data sets does the same with ours."""

import pathlib
import re

import keras
import numpy as np
import pytest

from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from tests import graphs

pytestmark = pytest.mark.e2e

VIEW = ViewOptions(height_px=8, width_px=8)


def open_data(shards, mode="train", **options):
    feeding = FeedingOptions(**({"batch_size": 4, "augment": []} | options))
    folder = graphs.shared_graph_dir()
    return input_fn(shards, view=VIEW, feeding=feeding, transform_graph_dir=folder, mode=mode)


def test_one_loss_suits_mixed_batches_and_validation_and_tensorboard_logs_both(
    train_shards, tmp_path
):
    train = open_data(train_shards, augment=["mixup"])
    validation = open_data(train_shards, "eval", labels="one_hot")
    assert train.class_names == validation.class_names == ["cat", "dog"]
    layers = [keras.layers.Flatten(), keras.layers.Dense(len(train.class_names), "softmax")]
    model = keras.Sequential([keras.Input((8, 8, 3)), *layers])
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    log = keras.callbacks.TensorBoard(str(tmp_path), histogram_freq=1)
    history = model.fit(train, epochs=2, validation_data=validation, verbose=0, callbacks=[log])
    assert np.isfinite([*history.history["loss"], *history.history["val_loss"]]).all()
    ids = open_data(train_shards, "eval")
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    assert model.evaluate(ids, verbose=0)[1] == pytest.approx(history.history["val_accuracy"][-1])
    assert {path.name for path in tmp_path.iterdir()} == {"train", "validation"}


@pytest.mark.parametrize(
    ("loss", "mode", "said"),
    [
        (
            "sparse_categorical_crossentropy",
            "train",
            "Argument `output` must have rank (ndim) `target.ndim - 1`",
        ),
        (
            "categorical_crossentropy",
            "eval",
            "Arguments `target` and `output` must have the same rank (ndim)",
        ),
    ],
)
def test_what_keras_says_of_labels_that_do_not_fit_a_loss_is_documented(
    train_shards, loss, mode, said
):
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2, "softmax")]
    )
    model.compile("sgd", loss)
    with pytest.raises(ValueError, match=re.escape(said)):
        model.fit(open_data(train_shards, mode, augment=["mixup"] * (mode == "train")), verbose=0)
    assert said in (pathlib.Path(__file__).parents[2] / "docs" / "feeding.md").read_text()


def read(data):
    return [images for images, _ in data.as_numpy_iterator()]


@pytest.mark.parametrize(
    ("change", "due"),
    [
        (lambda data: data.take(2), lambda epoch: epoch[:2]),
        (lambda data: data.skip(2), lambda epoch: epoch[2:]),
        (lambda data: data.shard(2, 1), lambda epoch: epoch[1::2]),
        (
            lambda data: data.rebatch(3),
            lambda epoch: np.array_split(np.concatenate(epoch), range(3, sum(map(len, epoch)), 3)),
        ),
    ],
    ids=["take", "skip", "shard", "rebatch"],
)
def test_a_part_of_each_epoch_is_that_part_of_the_next_one(train_shards, change, due):
    data = change(open_data(train_shards))
    for epoch in range(2):
        whole = input_fn(
            train_shards,
            view=VIEW,
            feeding=FeedingOptions(batch_size=4, augment=[]),
            transform_graph_dir=graphs.shared_graph_dir(),
            mode="train",
            first_epoch=epoch,
        )
        for found, expected in zip(read(data), due(read(whole)), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_cache_keeps_the_epoch_that_it_has_seen(train_shards):
    data = open_data(train_shards).cache()
    first, second = read(data), read(data)
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(second))
