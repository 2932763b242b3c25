"""A network of each task, with weights by a seed, exported behind a transform graph."""

import pathlib
from collections.abc import Sequence

import keras
import numpy as np

from image_pipeline.components.tasks.choose_task import TASKS
from image_pipeline.components.training import serving
from image_pipeline.components.views.options import ViewOptions

TASK_OF = {
    **{"class": "classification", "tags": "tagging", "value": "regression"},
    **{"boxes": "detection", "mask": "segmentation"},
}


def export(
    label: str, graph: pathlib.Path, view: dict[str, int], names: Sequence[str], folder: str
) -> None:
    """Exports the network for a kind of label."""
    inputs = keras.Input((view["height_px"], view["width_px"], 3))
    model = keras.Model(inputs, _answer(label, inputs, len(names)))
    draws = np.random.default_rng(0)
    for layer in (each for each in model.layers if each.weights):
        kernel = draws.normal(size=layer.kernel.shape, scale=0.3).astype(np.float32)
        layer.set_weights([kernel, np.zeros(layer.bias.shape, np.float32)])
    serving.export_model(
        model, str(graph), ViewOptions(**view), names, folder, task=TASKS[TASK_OF[label]]
    )


def _answer(label: str, inputs: keras.KerasTensor, count: int) -> object:
    layers = keras.layers
    if label == "mask":
        return layers.Conv2D(count, 1, activation="softmax")(inputs)
    flat = layers.Flatten()(layers.AveragePooling2D(4)(inputs))
    if label == "class":
        return layers.Dense(count, activation="softmax")(flat)
    if label == "tags":
        return layers.Dense(count, activation="sigmoid")(flat)
    if label == "value":
        return layers.Dense(1)(flat)
    # Five candidates of each image, no two at one place.
    corners = layers.Reshape([5, 2])(layers.Dense(10, activation="sigmoid")(flat))
    boxes = layers.Concatenate(name="boxes")([corners / 2, (corners + 1) / 2])
    scores = layers.Dense(5 * count, activation="sigmoid")(flat)
    return {"boxes": boxes, "scores": layers.Reshape([5, count], name="scores")(scores)}
