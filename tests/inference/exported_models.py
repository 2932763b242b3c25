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


_MODELS = {"classification": _classifier, "segmentation": _segmenter}


@functools.cache
def export(task: str) -> str:
    """The folder of an exported model of a task, whose answers differ from image to image."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 3))
    model = keras.Model(inputs, _MODELS[task](inputs))
    kernel = np.random.default_rng(0).normal(size=model.layers[-1].kernel.shape, scale=0.3)
    model.layers[-1].set_weights([kernel.astype(np.float32), np.zeros(2, np.float32)])
    folder = tempfile.TemporaryDirectory(prefix=f"{task}-")
    _KEPT.append(folder)
    path = f"{folder.name}/1700000000"
    serving.export_model(model, graphs.shared_graph_dir(), VIEW, CLASSES, path, task=TASKS[task])
    return path
