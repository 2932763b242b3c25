"""The head of a network: the layers that give its answers, which other classes need anew."""

from collections.abc import Iterator
from typing import Any

import keras

SCORES = "scores"  # a detector's output for classes, as `detector.build_model` calls it


def find_heads(model: keras.Model) -> list[keras.layers.Layer]:
    """The last layers with weights on the way to each output, in their order; none if unknown.

    A model of a class of its own does not say which of its layers gives the answers.
    """
    return _find_last(getattr(model, "outputs", None) or [])


def find_features(model: keras.Model) -> keras.KerasTensor | None:
    """What a model's only head sees; None if there is not one, or it is within another model."""
    heads = find_heads(model)
    if len(heads) != 1 or all(heads[0] is not layer for layer in model.layers):
        return None
    return heads[0].input


def find_class_heads(model: keras.Model) -> list[keras.layers.Layer]:
    """Those of the heads whose values belong to classes: not where a detector's boxes are."""
    outputs = getattr(model, "output", None) if getattr(model, "outputs", None) else None
    if isinstance(outputs, dict) and SCORES in outputs:
        return _find_last(outputs[SCORES])
    return find_heads(model)


def _find_last(outputs: Any) -> list[keras.layers.Layer]:
    found: dict[int, keras.layers.Layer] = {}
    for output in keras.tree.flatten(outputs):
        for layer in _last_with_weights(output):
            found.setdefault(id(layer), layer)
    return list(found.values())


def _last_with_weights(tensor: Any) -> Iterator[keras.layers.Layer]:
    history = getattr(tensor, "_keras_history", None)
    if history is None:
        return
    layer, node = history.operation, history.operation._inbound_nodes[history.node_index]
    if getattr(layer, "weights", None):
        # A model within the model ends in layers of its own.
        within = _find_last(getattr(layer, "outputs", None) or [])
        yield from within or [layer]
        return
    for each in node.input_tensors:
        yield from _last_with_weights(each)
