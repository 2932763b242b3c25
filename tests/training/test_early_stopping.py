"""When training ends early, and which weights it leaves."""

import logging
import math

import keras
import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training.early_stopping import EarlyStopping

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
    assert (
        "ends after epoch 2: val_loss has not become better than epoch 1's 1 for 1"
        in (caplog.messages[-1])
    )


def test_an_unknown_figure_is_refused():
    stopping = _play([], early_stopping_patience=1, early_stopping_monitor="val_los")[2]
    with pytest.raises(UserError, match=r"val_los is no .*; did you mean val_loss\? there are"):
        stopping.on_epoch_end(0, {"loss": 1.0, "val_loss": 1.0})
