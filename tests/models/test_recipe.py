"""The learning rate of each step, and smoothed losses; `tests/golden` has what is refused."""

import inspect
import math
import typing

import keras
import numpy as np
import pytest

from image_pipeline.components.models.compiling import (
    Scaled,
    Schedule,
    SmoothedLoss,
    compile_model,
    make_learning_rate,
    set_length,
)
from image_pipeline.components.models.model import binary_cross_entropy, cross_entropy
from image_pipeline.components.models.options import OF_THE_COMPILER, Optimizer, TrainingOptions

pytestmark = pytest.mark.unit


def test_the_optimizers_are_keras_own():
    own = {name.lower() for name, each in vars(keras.optimizers).items() if inspect.isclass(each)}
    assert set(typing.get_args(Optimizer)) <= own
    assert set(OF_THE_COMPILER) <= set(TrainingOptions.model_fields)


# The learning rate of each step.
def _rates(epochs, steps_per_epoch, **options):
    given = make_learning_rate(TrainingOptions(epochs=epochs, learning_rate=0.5, **options))
    given.set_length(epochs, steps_per_epoch)
    return [float(given(step)) for step in range(epochs * steps_per_epoch + 1)]


def test_a_cosine_after_a_warm_up():
    rates = _rates(4, 3, schedule="cosine", warmup_epochs=4 / 3, end_factor=0.2)
    assert rates[:5] == pytest.approx([0, 0.125, 0.25, 0.375, 0.5])
    half = [0.5 + 0.5 * math.cos(math.pi * step / 8) for step in range(9)]
    assert rates[4:] == pytest.approx([0.5 * (0.2 + 0.8 * each) for each in half])


def test_a_cosine_without_a_warm_up():
    assert _rates(1, 2, schedule="cosine") == pytest.approx([0.5, 0.25, 0])


def test_a_constant_rate_after_a_warm_up():
    assert _rates(2, 4, warmup_epochs=0.5) == pytest.approx([0, 0.25] + [0.5] * 7)


def test_a_rate_that_never_changes_is_a_number():
    assert make_learning_rate(TrainingOptions(learning_rate=0.5)) == 0.5


@pytest.mark.parametrize("scaled", [False, True])
def test_a_compiled_model_is_told_the_length(scaled):
    optimizer = keras.optimizers.SGD(Schedule(0.5, "cosine", 0.0, 0.0))
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer=optimizer, loss="mse")
    assert float(model.optimizer.learning_rate) == 0.5
    set_length(model, 1, 2)
    getattr(optimizer, "inner_optimizer", optimizer).iterations.assign(1)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.25)


@pytest.mark.parametrize("length", [None, [4, 3]])
def test_another_one_like_it(length):
    """Also of how long training is: a model that was saved in its midst goes on with its rates."""
    schedule = Schedule(0.5, "cosine", 1.0, 0.1, length)
    for each in (schedule, Scaled(schedule, 0.5, 2)):
        saved = keras.saving.serialize_keras_object(each)
        again = keras.saving.deserialize_keras_object(saved)
        assert type(again) is type(each) and again.get_config() == each.get_config()
        assert [float(again(step)) for step in range(12)] == [
            float(each(step)) for step in range(12)
        ]


# Smoothed losses equal those of labels that were spread by hand.
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], np.float32)


def _by_hand(shares):
    return -(shares * np.log(PROBABILITIES)).sum(axis=1)


@pytest.mark.parametrize("ids", [[0, 1], [[0], [1]]])
def test_class_ids(ids):
    shares = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    loss = SmoothedLoss(cross_entropy, 0.3)(np.array(ids), PROBABILITIES)
    np.testing.assert_allclose(loss, _by_hand(shares), rtol=1e-5)


def test_shares_of_mixed_images():
    shares = np.array([[0.5, 0.5, 0], [0, 0, 1]], np.float32)
    loss = SmoothedLoss(cross_entropy, 0.3)(shares, PROBABILITIES)
    np.testing.assert_allclose(loss, _by_hand(0.7 * shares + 0.1), rtol=1e-5)


def test_tags():
    tags = np.array([[1, 0, 0], [1, 0.5, 1]], np.float32)
    loss = SmoothedLoss(binary_cross_entropy, 0.2)(tags, PROBABILITIES)
    spread = 0.8 * tags + 0.1
    by_hand = spread * np.log(PROBABILITIES) + (1 - spread) * np.log(1 - PROBABILITIES)
    np.testing.assert_allclose(loss, -by_hand, rtol=1e-4)


def test_records_without_a_class_stay_out_of_the_mean():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Activation("linear")])
    model.compile(loss=SmoothedLoss(cross_entropy, 0.3))
    whole = model.compute_loss(None, np.array([0, -1]), PROBABILITIES)
    first = model.compute_loss(None, np.array([0]), PROBABILITIES[:1])
    np.testing.assert_allclose(whole, first, rtol=1e-6)


def test_a_single_class_is_left_alone():
    ones = np.ones([2, 1], np.float32)
    assert np.array(SmoothedLoss(cross_entropy, 0.3)(np.zeros(2, int), ones)).tolist() == [0, 0]


def test_nothing_is_spread():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Activation("linear")])
    compile_model(model, cross_entropy, None, TrainingOptions())
    assert model.loss is cross_entropy
    compile_model(model, cross_entropy, None, TrainingOptions(label_smoothing=0.1))
    assert model.loss.__name__ == "cross_entropy"
