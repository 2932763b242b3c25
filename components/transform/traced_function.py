"""Traces a user's `preprocessing_fn` without data, and finds what its outputs are made of."""

import dataclasses
import inspect
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform import analyzer_nodes, graph_tools, impl_helper, nodes, tf2_utils

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.dotted import Named
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.messages import suggest
from image_pipeline.components.transform import statistics
from image_pipeline.components.transform.labels import offer_order
from image_pipeline.components.transform.moments import TakeSums, offer_sums
from image_pipeline.components.transform.record_batches import Wanted

PreprocessingFn = Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Traced:
    """What a function did to symbolic inputs.

    Attributes:
      graph: all its operations.
      inputs: the symbolic inputs by name.
      outputs: what it returned.
      scratch_dir: where analyzers' files would be; constants that name it differ between traces.
    """

    graph: tf.Graph
    inputs: Mapping[str, tf.Tensor]
    outputs: Mapping[str, Any]
    scratch_dir: str


def trace(function: PreprocessingFn, specs: Mapping[str, tf.TensorSpec]) -> Traced:
    """Traces a function as tf.Transform does, analyzers and all.

    Args:
      function: as `guard` returns it.
      specs: its inputs, see `record_batches.input_specs`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        graph, inputs, outputs = impl_helper.trace_preprocessing_function(
            function, dict(specs), use_tf_compat_v1=False, base_temp_dir=scratch
        )
    return Traced(graph, inputs, outputs, scratch)


class _Inputs(dict):
    """The inputs; asking for an unknown one explains what there is, and how to get more."""

    def __missing__(self, key: str) -> tf.Tensor:
        raise UserError(
            f"it reads the input {key!r}, but its inputs are {sorted(self)}"
            f"; {suggest(str(key), self)}Name further columns of a record in transform.columns."
        )


def guard(function: PreprocessingFn, name: str, first: Sequence[str] = ()) -> PreprocessingFn:
    """Wraps a user's function so that its mistakes are `UserError`s, and records are counted.

    Args:
      function: the user's.
      name: its dotted path, for messages.
      first: the classes that are numbered first, in this order; others follow by their names.

    Returns:
      The function to analyse. Its graph holds the statistic `records`, how many were analysed.
    """
    named = Named("transform.preprocessing_fn", name, function)

    def preprocessing_fn(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        images, labels = inputs[contract.IMAGE_INPUT], inputs[contract.LABEL_INPUT]
        records = tft.sum(tf.ones_like(labels, tf.int64))
        try:
            with offer_sums(images, labels), offer_order(first):
                outputs = named.function(_Inputs(inputs))
        except Exception as error:
            where = find_line(named.function, traceback.extract_tb(error.__traceback__))
            if isinstance(error, UserError):
                raise UserError(f"preprocessing_fn {name}{where}: {error}") from error
            if shortage := explain_shortage(error):  # tf.Transform saves statistics as it traces.
                raise shortage from error
            raise UserError(
                f"preprocessing_fn {name} failed{where}: {type(error).__name__}: {error}"
            ) from error
        if problem := _find_wrong_kind(outputs, record.TAGS in inputs):
            raise UserError(f"preprocessing_fn {name} must return {problem}")
        label = statistics.keep_statistics(
            outputs[contract.LABEL_OUTPUT], [statistics.name_statistic("records", records)]
        )
        return {**outputs, contract.LABEL_OUTPUT: label}

    return preprocessing_fn


def find_line(function: PreprocessingFn, frames: Iterable[Any]) -> str:
    """The last line of the function's own file among frames of a stack, if there is one."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        return ""
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f" (line {lines[-1]})" if lines else ""


def _find_wrong_kind(outputs: Any, has_tags: bool) -> str | None:
    """What a function should have returned that tf.Transform and the graph's readers can take."""
    wanted = {contract.IMAGE_OUTPUT: "float [batch, ...]", contract.LABEL_OUTPUT: "int64 [batch]"}
    if not isinstance(outputs, Mapping):
        return f"a dict of {wanted}, got {type(outputs).__name__}; return such a dict."
    if missing := [key for key in wanted if key not in outputs]:
        return f"a dict of {wanted}, got {sorted(outputs)}; return {missing} too."
    for key, output in outputs.items():
        kind = type(output).__name__
        if not isinstance(key, str):
            return f"a dict with strings as keys, got {key!r}; name the output."
        if has_tags and key == contract.LABEL_OUTPUT and isinstance(output, tf.RaggedTensor):
            continue
        if key in wanted and not isinstance(output, tf.Tensor):
            return (
                f"a dense tensor as {key!r}, got {kind}; make it dense, for example with "
                ".to_tensor()."
            )
        if not isinstance(output, tf.Tensor | tf.SparseTensor | tf.RaggedTensor):
            return (
                f"tensors, got {kind} as {key!r}; leave it out, or make it a tensor with a batch "
                "dimension."
            )
    return None


def find_ancestors(output: Any) -> list[tf.Operation]:
    """The operations that an output's value for a batch is made of.

    Statistics of the whole data set, of any column, are constants in the graph, and end the way.
    """
    waiting = [part.op for part in tf.nest.flatten(output, expand_composites=True)]
    seen: dict[str, tf.Operation] = {}
    while waiting:
        operation = waiting.pop()
        if operation.name not in seen:
            seen[operation.name] = operation
            waiting.extend(tensor.op for tensor in operation.inputs)
    return list(seen.values())


def reach_inputs(traced: Traced, output: str) -> set[str]:
    """The names of the inputs whose values for a batch can change an output for that batch."""
    name_of = {tensor.op.name: name for name, tensor in traced.inputs.items()}
    found = (operation.name for operation in find_ancestors(traced.outputs[output]))
    return {name_of[name] for name in found if name in name_of}


def list_analyzers(traced: Traced) -> dict[str, Any]:
    """What is analysed: each analyzer by the operation that stands for its result in the trace.

    It is the definition of tf.Transform's, or the Beam transform of one of ours.
    """
    replaced = traced.graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS)
    found = {each.tensor.op.name: each.future.parent_operation.operation_def for each in replaced}
    return {key: getattr(each, "ptransform", each) for key, each in found.items()}


def find_wanted(traced: Traced, columns: Sequence[record.Column]) -> Wanted:
    """What of each record the analysis reads: what analyzers look at, and no more.

    Args:
      traced: the function's trace.
      columns: the further columns that the function takes.
    """
    found = graph_tools.SourcedTensorsVisitor()
    for each in traced.graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS):
        nodes.Traverser(found).visit_value_node(each.future)
    # As `tft.get_analyze_input_columns` does: what outputs wait for is computed, too.
    outputs = tf.nest.flatten(dict(traced.outputs), expand_composites=True)
    _, waited = tf2_utils.strip_and_get_tensors_and_control_dependencies(outputs)
    needed = graph_tools.get_dependent_inputs(
        traced.graph, traced.inputs, [*found.sourced_tensors, *waited]
    )
    return Wanted(
        columns=tuple(columns),
        pixels=contract.IMAGE_INPUT in needed,
        sums=any(isinstance(each, TakeSums) for each in list_analyzers(traced).values()),
    )
