"""Small exported models that all tests of a run share; do not write to their folders."""

import functools
import tempfile

import keras
import numpy as np

from image_pipeline.components.tasks.choose_task import TASKS
from image_pipeline.components.training import serving
from image_pipeline.components.views.options import ViewOptions
from tests import graphs

VIEW = ViewOptions(height_px=8, width_px=8)
CLASSES = ["cat", "dog"]
_KEPT: list[tempfile.TemporaryDirectory] = []  # removed when the interpreter ends


def _classifier(inputs):
    return keras.layers.Dense(2, activation="softmax")(keras.layers.Flatten()(inputs))


def _segmenter(inputs):
    return keras.layers.Conv2D(2, 1, activation="softmax")(inputs)


def _detector(inputs):
    """Five candidates of each image, no two at one place."""
    flat = keras.layers.Flatten()(inputs)
    sides = keras.layers.Dense(10, activation="sigmoid")(flat)
    corners = keras.layers.Reshape([5, 2])(sides)
    boxes = keras.layers.Concatenate(name="boxes")([corners / 2, (corners + 1) / 2])
    scores = keras.layers.Dense(10, activation="sigmoid")(flat)
    return {"boxes": boxes, "scores": keras.layers.Reshape([5, 2], name="scores")(scores)}


_MODELS = {"classification": _classifier, "segmentation": _segmenter, "detection": _detector}


@functools.cache
def export(task: str) -> str:
    """The folder of an exported model of a task, whose answers differ from image to image."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 3))
    model = keras.Model(inputs, _MODELS[task](inputs))
    draws = np.random.default_rng(0)
    for layer in (each for each in model.layers if each.weights):
        kernel = draws.normal(size=layer.kernel.shape, scale=0.3).astype(np.float32)
        layer.set_weights([kernel, np.zeros(layer.bias.shape, np.float32)])
    folder = tempfile.TemporaryDirectory(prefix=f"{task}-")
    _KEPT.append(folder)
    path = f"{folder.name}/1700000000"
    serving.export_model(model, graphs.shared_graph_dir(), VIEW, CLASSES, path, task=TASKS[task])
    return path
