"""The head of a network: the layers that give its answers, which other classes need anew."""

from collections.abc import Iterator
from typing import Any

import keras


def find_heads(model: keras.Model) -> list[keras.layers.Layer]:
    """The last layers with weights on the way to each output, in their order; none if unknown.

    A model of a class of its own does not say which of its layers gives the answers.
    """
    found: dict[int, keras.layers.Layer] = {}
    for output in keras.tree.flatten(getattr(model, "outputs", None) or []):
        for layer in _last_with_weights(output):
            found.setdefault(id(layer), layer)
    return list(found.values())


def _last_with_weights(tensor: Any) -> Iterator[keras.layers.Layer]:
    history = getattr(tensor, "_keras_history", None)
    if history is None:
        return
    layer, node = history.operation, history.operation._inbound_nodes[history.node_index]
    if getattr(layer, "weights", None):
        yield layer
        return
    for each in node.input_tensors:
        yield from _last_with_weights(each)
