"""Each option of the recipe, held against an update that is computed by hand."""

import typing

import keras
import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.model import build_model
from image_pipeline.components.models.options import Optimizer, TrainingOptions

pytestmark = pytest.mark.e2e


def _mean(labels, outputs):
    """Its gradient is the mean of the inputs, whatever the labels."""
    return outputs[:, 0]


def _fit(batches, epochs=1, **options):
    """The weight and the bias of a line from 1 and 0, after a step for each batch of one input."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    defaults = {"optimizer": "sgd", "learning_rate": 0.5, "epochs": epochs}
    compile_model(model, _mean, None, TrainingOptions(**{**defaults, **options}))
    for batch in batches:
        model.train_on_batch(np.full([1, 1], batch, np.float32), np.zeros([1, 1]))
    return model


def _weights(model):
    return [pytest.approx(float(weight.numpy().item())) for weight in model.weights]


def test_a_step_of_sgd():
    assert _weights(_fit([2.0])) == [1 - 0.5 * 2, -0.5]


def test_momentum_and_nesterov():
    assert _weights(_fit([2.0, 2.0], momentum=0.5))[0] == 1 - 1 - (1 + 0.5)
    # Nesterov: 0.5 times the new velocity, and the gradient once more.
    assert _weights(_fit([2.0], momentum=0.5, nesterov=True))[0] == 1 - 0.5 - 1


def test_weights_decay_and_biases_do_not():
    weight, bias = _weights(_fit([2.0, 2.0], weight_decay=0.2))
    once = 1 - 1 * 0.2 * 0.5 - 1
    assert weight == once - once * 0.2 * 0.5 - 1
    assert bias == -1


def test_gradients_are_clipped():
    assert _weights(_fit([3.0], clipnorm=0.5)) == [1 - 0.25, -0.25]
    both = 10**0.5  # of the gradients 3 and 1
    assert _weights(_fit([3.0], global_clipnorm=0.5)) == [1 - 0.75 / both, -0.25 / both]


def test_gradients_of_several_batches_are_one_update():
    assert _weights(_fit([2.0, 4.0], gradient_accumulation_steps=2)) == [1 - 0.5 * 3, -0.5]
    assert _weights(_fit([2.0, 4.0, 9.0], gradient_accumulation_steps=2))[0] == 1 - 0.5 * 3


def test_the_average_looks_back():
    model = _fit([2.0, 2.0, 2.0], use_ema=True, ema_momentum=0.75)
    assert _weights(model)[0] == -2  # the model's own are what they would be
    model.optimizer.finalize_variable_values(model.trainable_variables)
    assert _weights(model)[0] == 0.75 * (0.75 * 0 + 0.25 * -1) + 0.25 * -2


def test_a_rate_that_follows_a_cosine():
    model = _fit([1.0], schedule="cosine", warmup_epochs=0.5, epochs=4)
    # Until the length is known, it is constant.
    assert _weights(model)[0] == 0.5


def test_half_precision_scales_the_loss_and_keeps_weights():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = build_model((8, 8, 3), 2, TrainingOptions())
    finally:
        keras.config.set_dtype_policy("float32")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert model.layers[1].compute_dtype == "float16" and model.output.dtype == "float32"


@pytest.mark.parametrize("name", typing.get_args(Optimizer))
def test_every_optimizer_moves_the_weights(name):
    model = _fit([2.0], optimizer=name, weight_decay=0.01)
    assert type(model.optimizer).__name__.lower() == name
    assert float(model.weights[0].numpy().item()) != 1


def test_a_loss_without_a_function_is_not_smoothed():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)])
    with pytest.raises(UserError, match=r"label_smoothing=0.1 .* but the loss is 'mse'; set it"):
        compile_model(model, "mse", None, TrainingOptions(label_smoothing=0.1))


def test_decay_needs_weights():
    model = keras.Sequential([keras.layers.Dense(2)])
    with pytest.raises(UserError, match=r"weight_decay=0.1 needs .* begin the model with a keras"):
        compile_model(model, "mse", None, TrainingOptions(weight_decay=0.1))
