"""Statistics that a transform graph holds, named so that people and tools can read them back."""

import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from image_pipeline.components.feeding.graph import TransformGraph

_PREFIX = "statistic__"


def name_statistic(name: str, value: tf.Tensor) -> tf.Tensor:
    """Marks a value computed by an analyzer; use the result in place of the value.

    Args:
      name: letters, digits and underscores.
      value: any tensor that does not depend on the batch.

    Returns:
      The same value.
    """
    return tf.identity(value, name=_PREFIX + name)


def keep_statistics(output: tf.Tensor, marked: Sequence[tf.Tensor]) -> tf.Tensor:
    """Ties marked values that no output depends on to one, since tf.Transform saves nothing else.

    Args:
      output: what the `preprocessing_fn` returns.
      marked: results of `name_statistic`.

    Returns:
      The same output.
    """
    with tf.control_dependencies(marked):
        return tf.identity(output)


def read_statistics(transform_graph_dir: str) -> dict[str, np.ndarray]:
    """Reads all marked statistics out of a saved transform graph.

    Args:
      transform_graph_dir: the folder that tf.Transform wrote.

    Returns:
      Each statistic's name and value.

    Raises:
      UserError: if there is no graph, or it is damaged.
    """
    graph = TransformGraph(transform_graph_dir)
    saved = graph.function.graph
    marked = {
        found[1]: operation.outputs[0].name
        for operation in saved.get_operations()
        # A constant that is marked brings a second operation along, for the constant itself.
        if operation.type == "Identity"
        and (found := re.search(rf"(?:^|/){_PREFIX}(\w+?)(?:_\d+)?$", operation.name))
    }
    # tf.Transform keeps what analyzers found as captured inputs of the function, so feed those.
    found_values = {
        placeholder.name: value.numpy()
        for value, placeholder in saved.captures
        if value.dtype != tf.resource
    }
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(saved.as_graph_def(), name="")
        return session.run(marked, found_values)
