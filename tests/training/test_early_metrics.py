"""Figures on the way through training, and that they change nothing."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components import progress
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training.early_metrics import EarlyMetrics
from image_pipeline.components.training.early_stopping import plan_averaging
from image_pipeline.components.training.epoch_clock import EpochClock
from image_pipeline.components.training.profile import measure_step

pytestmark = [pytest.mark.unit, pytest.mark.e2e]

STEPS = 20


def _train(epochs, told=None, start=(0, 0), optimizer="adam"):
    """Trains; gives the history and the weights, and collects what is told after each step."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(STEPS * 4, 3)).astype(np.float32)
    labels = (images[:, 0] > 0).astype(np.int32)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, activation="softmax")(keras.layers.Dropout(0.5)(inputs))
    model = keras.Model(inputs, outputs)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(4)
    callbacks = []
    if told is not None:
        clock = EpochClock(model)
        early = EarlyMetrics(lambda: data, epochs, STEPS, Position(0, *start), clock)
        look = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: told.append(progress.look().told)
        )
        callbacks = [clock, early, look, *plan_averaging(model)]
        progress.begin("steps", epochs * STEPS)
    history = model.fit(
        data,
        epochs=epochs,
        initial_epoch=start[0],
        validation_data=data,
        callbacks=callbacks,
        verbose=0,
    )
    return history.history, model.get_weights()


def test_a_tenth_of_all_steps_has_a_figure(caplog):
    told = []
    with caplog.at_level(logging.INFO):
        _train(3, told)
    assert told[:5] == [""] * 5
    assert told[5].startswith("after 6 of 60 steps: accuracy 0.") and told[5].endswith(" on eval")
    assert told[6:20] == [told[5]] * 14
    assert told[20].startswith("after epoch 1 of 3: accuracy 0.")
    assert progress.look().told.startswith("after epoch 3 of 3: ")
    ours = [each.message for each in caplog.records if each.name == EarlyMetrics.__module__]
    assert [message[:20] for message in ours] == [
        *("after 6 of 60 steps:", "after epoch 1 of 3: ", "after epoch 2 of 3: "),
        "after epoch 3 of 3: ",
    ]


def test_it_changes_neither_weights_nor_figures():
    (history, weights), (watched, watched_weights) = _train(2), _train(2, [])
    assert history == watched
    for plain, seen in zip(weights, watched_weights, strict=True):
        np.testing.assert_array_equal(plain, seen)


def test_it_is_of_the_average_of_the_weights_where_that_is_evaluated():
    told, use_ema = [], {"use_ema": True, "ema_momentum": 1.0}  # the average stays as it begins
    _train(3, told, optimizer=keras.optimizers.Adam(0.1, **use_ema))
    early = {each.rpartition(": ")[2] for each in told if each}
    assert len(early) == 1


@pytest.mark.parametrize(("epochs", "start"), [(10, (0, 0)), (3, (1, 0)), (3, (0, 6))])
def test_where_an_epoch_ends_before_or_a_tenth_lies_behind_there_is_no_other(epochs, start):
    told = []
    _train(epochs, told, start)
    assert told[:STEPS] == [""] * STEPS


def test_steps_before_an_interruption_count():
    told = []
    _train(3, told, (0, 4))
    assert told[0] == "" and told[1].startswith("after 6 of 60 steps: accuracy 0.")


@pytest.mark.parametrize(
    ("kind", "classes", "model"),
    [
        ("classes", 3, "small"),
        ("classes", 3, "EfficientNetLite0"),
        ("tags", 2, "small"),
        ("values", 0, "small"),
        ("masks", 0, "unet"),
        ("boxes", 2, "detector"),
    ],
)
def test_every_kind_of_labels_has_a_step(kind, classes, model):
    assert 0 < measure_step(kind, classes, model, 16, 24, 3) < 10


@pytest.mark.parametrize(("model", "norms_learn"), [("EfficientNetLite0", False), ("small", True)])
def test_a_network_of_photos_is_measured_as_it_is_tuned(monkeypatch, model, norms_learn):
    seen, train = [], keras.Model.train_on_batch

    def watch(self, *data):
        seen.append({type(each).__name__: each.trainable for each in self.layers if each.weights})
        return train(self, *data)

    monkeypatch.setattr(keras.Model, "train_on_batch", watch)
    measure_step("classes", 3, model, 16, 24, 3)
    assert {each["BatchNormalization"] for each in seen} == {norms_learn}
    assert {each[kind] for each in seen for kind in ("Conv2D", "Dense")} == {True}
