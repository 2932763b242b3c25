"""The average is in the model while it is evaluated and when all is done, and never else."""

import keras
import numpy as np
import pytest

from image_pipeline.components.training.averaging import averaged, plan_averaging, take_average

pytestmark = pytest.mark.unit


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
