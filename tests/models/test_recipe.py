"""Which options of the recipe exclude each other, or would change nothing."""

import inspect
import typing

import keras
import pydantic
import pytest

from image_pipeline.components.models.options import OF_THE_COMPILER, Optimizer, TrainingOptions

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"momentum": 0.9}, r"momentum is of muon, rmsprop, sgd, but the optimizer is adam"),
        ({"nesterov": True, "optimizer": "rmsprop"}, r"nesterov is of muon, sgd, but .* rmsprop"),
        ({"clipnorm": 1.0, "global_clipnorm": 1.0}, r"exclude each other; set one"),
        ({"epochs": 2, "warmup_epochs": 2}, r"less than epochs, got 2 of 2; lower it"),
        ({"end_factor": 0.1}, r"end_factor=0.1 would change nothing; set training.schedule=cosine"),
        ({"ema_momentum": 0.9}, r"ema_momentum=0.9 would change nothing; set training.use_ema"),
        ({"early_stopping_monitor": "loss"}, r"set training.early_stopping_patience=5, say"),
        ({"optimizer": "adamm"}, r"Input should be 'adadelta', 'adafactor'"),
    ],
)
def test_what_would_be_ignored_is_refused(options, told):
    with pytest.raises(pydantic.ValidationError, match=told):
        TrainingOptions(**options)


def test_the_optimizers_are_keras_own():
    own = {name.lower() for name, each in vars(keras.optimizers).items() if inspect.isclass(each)}
    assert set(typing.get_args(Optimizer)) <= own
    assert set(OF_THE_COMPILER) <= set(TrainingOptions.model_fields)
