"""What of a record a `preprocessing_fn`'s analyzers look at; the rest need not be read."""

from collections.abc import Sequence

import tensorflow as tf
from tensorflow_transform import analyzer_nodes, graph_tools, nodes, tf2_utils

from image_pipeline.components import contract
from image_pipeline.components.dataset.record import Column
from image_pipeline.components.transform.sums_analyzer import TakeSums
from image_pipeline.components.transform.traced_function import Traced
from image_pipeline.components.transform.view_reader import Wanted


def find_wanted(traced: Traced, columns: Sequence[Column]) -> Wanted:
    """What the analysis reads of each record.

    Args:
      traced: the function's trace.
      columns: the further columns that the function takes.
    """
    futures = [
        each.future for each in traced.graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS)
    ]
    found = graph_tools.SourcedTensorsVisitor()
    for future in futures:
        nodes.Traverser(found).visit_value_node(future)
    # As `tft.get_analyze_input_columns` does: what outputs wait for is computed, too.
    outputs = tf.nest.flatten(dict(traced.outputs), expand_composites=True)
    _, waited = tf2_utils.strip_and_get_tensors_and_control_dependencies(outputs)
    needed = graph_tools.get_dependent_inputs(
        traced.graph, traced.inputs, [*found.sourced_tensors, *waited]
    )
    return Wanted(
        columns=tuple(columns),
        pixels=contract.IMAGE_INPUT in needed,
        sums=any(isinstance(_transform_of(future), TakeSums) for future in futures),
    )


def _transform_of(future: nodes.ValueNode) -> object:
    """The Beam transform that an analyzer's value comes from; None for tf.Transform's own."""
    return getattr(future.parent_operation.operation_def, "ptransform", None)
