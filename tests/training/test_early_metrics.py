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
