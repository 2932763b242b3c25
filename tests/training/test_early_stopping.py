"""When training ends early, and which weights it leaves."""

import logging
import math

import keras
import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training.early_stopping import (
    EarlyStopping,
    averaged,
    plan_averaging,
    take_average,
)

pytestmark = pytest.mark.unit


def _play(values, **options):
    """Goes through epochs of these values; the weight has each epoch's number."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse")
    monitor = options.get("early_stopping_monitor", "val_loss")
    stopping = EarlyStopping(model, TrainingOptions(**options))
    ended = None
    for epoch, value in enumerate(values):
        model.weights[0].assign([[epoch]])
        stopping.on_epoch_end(epoch, {monitor: value})
        if stopping.is_over and ended is None:
            ended = epoch
    stopping.finish()
    return ended, int(np.array(model.weights[0]).item()), stopping


def test_patience_counts_epochs_since_the_best():
    ended, weight, stopping = _play([3, 2, 2, 1, 1.5, 1], early_stopping_patience=2)
    assert (ended, weight, stopping.best_epoch) == (5, 3, 3)
    assert stopping.model.stop_training


def test_what_is_no_loss_is_better_if_it_is_more():
    options = {"early_stopping_monitor": "val_accuracy", "early_stopping_patience": 1}
    ended, weight, _ = _play([0.5, 0.6, 0.55], **options)
    assert (ended, weight) == (2, 1)


def test_the_last_weights_may_be_kept():
    ended, weight, _ = _play([1, 2], early_stopping_patience=1, restore_best_weights=False)
    assert (ended, weight) == (1, 1)


def test_a_value_that_is_no_number_is_never_better():
    ended, weight, _ = _play([math.nan, 1, math.nan], early_stopping_patience=2)
    assert (ended, weight) == (None, 1)


def test_without_patience_nothing_is_done():
    ended, weight, stopping = _play([1, 2, 3])
    assert (ended, weight, stopping.state, stopping.best_epoch) == (None, 2, None, None)


def test_it_says_why_training_ended(caplog):
    with caplog.at_level(logging.INFO):
        _play([1, 2], early_stopping_patience=1)
    ours = [each.message for each in caplog.records if each.name == EarlyStopping.__module__]
    assert "ends after epoch 2: val_loss has not become better than epoch 1's 1 for 1" in ours[-1]


def test_an_unknown_figure_is_refused():
    stopping = _play([], early_stopping_patience=1, early_stopping_monitor="val_los")[2]
    with pytest.raises(UserError, match=r"val_los is not a .*; did you mean val_loss\? there are"):
        stopping.on_epoch_end(0, {"loss": 1.0, "val_loss": 1.0})


def _make(**options):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    optimizer = keras.optimizers.SGD(0.5, **options)
    model.compile(optimizer, loss=lambda labels, outputs: outputs[:, 0])
    return model


def _fit(model, epochs):
    """Each step takes 0.5 off weight and bias; validation gives the sum of both."""
    ones = np.ones([1, 1])
    callbacks = plan_averaging(model)
    fitted = model.fit(
        *(ones, ones), epochs=epochs, validation_data=(ones, ones), callbacks=callbacks, verbose=0
    )
    return fitted.history["val_loss"]


def _weight(model):
    return float(model.weights[0].numpy().item())


@pytest.mark.e2e
def test_validation_sees_the_average_and_training_goes_on_from_the_weights():
    model = _make(use_ema=True, ema_momentum=0.5)
    assert _fit(model, 2) == [0.5 - 0.5, (0.25 - 0.75)]  # averages: 0.5, -0.5; then 0.25, -0.75
    assert _weight(model) == 0
    _fit(model, 1)
    assert _weight(model) == -0.5
    with averaged(model):
        assert _weight(model) == 0.5 * 0.25 - 0.5 * 0.5
    assert _weight(model) == -0.5
    take_average(model)
    assert _weight(model) == -0.125


@pytest.mark.e2e
def test_without_an_average_nothing_changes():
    model = _make()
    assert plan_averaging(model) == []
    assert _fit(model, 1) == [0.5 - 0.5]
    take_average(model)
    assert _weight(model) == 0.5


def test_an_optimizer_that_scales_the_loss_has_one_too():
    model = _make()
    inner = keras.optimizers.SGD(0.5, use_ema=True)
    model.compile(keras.optimizers.LossScaleOptimizer(inner), loss="mse")
    assert len(plan_averaging(model)) == 1


def test_before_the_first_step_there_is_no_average():
    model = _make(use_ema=True)
    model.optimizer.build(model.trainable_variables)
    with averaged(model):
        assert _weight(model) == 1
    take_average(model)
    assert _weight(model) == 1
