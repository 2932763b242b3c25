"""The learning rate of each step."""

import math

import keras
import pytest

from image_pipeline.components.models.compiling import (
    Scaled,
    Schedule,
    make_learning_rate,
    set_length,
)
from image_pipeline.components.models.options import TrainingOptions

pytestmark = pytest.mark.unit


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
