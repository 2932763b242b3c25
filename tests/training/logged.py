"""Trainings whose batches are logged, and compared with those that a certificate names."""

import functools
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.certificate import FedBatches
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.model import cross_entropy
from image_pipeline.components.training import resume, trainer
from image_pipeline.components.training.checkpoint import Checkpoints
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.named_model import find_certificate
from tests.training.models import build_linear_model

LOGGED: list[np.ndarray] = []
VIEW = {"height_px": 8, "width_px": 8}


class LoggingModel(keras.Model):
    """Logs the pixels of each batch that it is trained on, float32 [batch, height, width, 3]."""

    def train_step(self, data):
        tf.numpy_function(lambda images: LOGGED.append(images.copy()), [data[0]], [])
        return super().train_step(data)


def build_logging_model(input_shape, num_classes, options):
    linear = build_linear_model(input_shape, num_classes, options)
    model = LoggingModel(linear.inputs, linear.outputs)
    model.compile(optimizer=linear.optimizer, loss=linear.loss)
    return model


def build_by_recipe(input_shape, num_classes, options):
    """A network and a head, compiled as built-in models are."""
    inputs = keras.Input(input_shape)
    outputs = keras.layers.Flatten()(keras.layers.Conv2D(2, 3, strides=2)(inputs))
    model = LoggingModel(inputs, keras.layers.Dense(num_classes, activation="softmax")(outputs))
    compile_model(model, cross_entropy, None, options)
    return model


class Interrupt(Exception):
    """What stops training in these tests."""


class _Stopping(Checkpoints):
    """Stops training after so many calls of the model."""

    def __init__(self, stop_after, *arguments):
        super().__init__(*arguments)
        self._left = stop_after

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        self._left -= 1
        if not self._left:
            raise Interrupt


def train(data_dirs, graph, model_dir, stop_after=None, feeding=None, **training):
    """Trains a model; gives the images of each batch that it is trained on.

    Args:
      data_dirs: of the data sets; the first one is evaluated, too.
      graph: the folder of the transform graph.
      model_dir: where the model goes.
      stop_after: how many calls of the model there are before `Interrupt` is raised.
      feeding, training: options.
    """
    LOGGED.clear()
    arguments = types.SimpleNamespace(
        train_files=[f"{data_dir}/Split-train/*" for data_dir in data_dirs],
        eval_files=[f"{data_dirs[0]}/Split-eval/*"],
        transform_graph_path=str(graph),
        serving_model_dir=str(model_dir),
        model_run_dir=f"{model_dir}_run",
        custom_config={
            "view": VIEW,
            "feeding": {"batch_size": 4, "augment": [], **(feeding or {})},
            "training": {
                **{"model": f"{__name__}.build_logging_model", "epochs": 2, "seed": 5},
                **training,
            },
        },
    )
    with pytest.MonkeyPatch.context() as patched:
        if stop_after is not None:
            patched.setattr(resume, "Checkpoints", functools.partial(_Stopping, stop_after))
        trainer.run_fn(arguments)
    return LOGGED[:]


def make_namer(data_dirs, graph):
    """Names the images of a batch by their pixels, which no random step has changed but a flip."""
    names, views = [], []
    for data_dir in data_dirs:
        feeding = FeedingOptions(columns=("image/filename",))
        shards = [f"{data_dir}/Split-train/*"]
        view = ViewOptions(**VIEW)
        data = input_fn(
            shards, view=view, feeding=feeding, mode="eval", transform_graph_dir=str(graph)
        )
        for features, _ in data:
            names += [name.decode() for name in features["image/filename"].numpy()]
            views.append(features["image"].numpy())
    views = np.concatenate(views)
    views = np.concatenate([views, views[:, :, ::-1]])

    def name(images):
        distances = ((images[:, None] - views) ** 2).mean(axis=(2, 3, 4))
        assert (distances.min(axis=1, initial=np.inf) < 1e-6).all()
        return [names[number % len(names)] for number in distances.argmin(axis=1)]

    return name


def list_names(fed, steps):
    return [[each.source for each in fed.list_batch(step)] for step in range(steps)]


def check_all(data_dirs, folder, logged):
    """Every batch that was logged is named, and every image is found where it was logged."""
    fed = FedBatches(find_certificate(str(folder)), [*map(str, data_dirs)])
    assert list_names(fed, len(logged)) == logged
    with pytest.raises(UserError, match=f"was fed {len(logged)} batches"):
        fed.list_batch(len(logged))
    number = {key: step for step, key in enumerate(_list_keys(fed, len(logged)))}
    for image in sorted({name for batch in logged for name in batch}):
        found = [(number[each.part, each.epoch, each.step], each.place) for each in fed.find(image)]
        expected = [
            (step, place)
            for step, batch in enumerate(logged)
            for place, name in enumerate(batch)
            if name == image
        ]
        assert found == expected


def _list_keys(fed, steps):
    firsts = (fed.list_batch(step)[0] for step in range(steps))
    return [(each.part, each.epoch, each.step) for each in firsts]
