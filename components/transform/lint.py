"""Refuses randomness in a `preprocessing_fn`, which is traced once and then frozen into a graph.

Three checks, since each misses something: the source names Python's and NumPy's generators
with their lines (`lint_source`); the graph names TensorFlow's random operations wherever they were
made; and a second trace shows any other value that differs from run to run.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from image_pipeline.components.errors import UserError
from image_pipeline.components.transform.lint_source import WAY_OUT, check_source
from image_pipeline.components.transform.traced_function import (
    PreprocessingFn,
    Traced,
    guard,
    trace,
)

# Operations that TensorFlow calls stateful, and that only read what tf.Transform found.
_READERS = re.compile(
    r"\w*HashTable\w*|LookupTable(Find|Size|Export)\w*|InitializeTable\w*|VarHandleOp|ReadVariableOp"
    r"|ResourceGather\w*|VarIsInitializedOp|Stateful\w*Call|If|While|Case|Assert|Print\w*"
    r"|Placeholder\w*"
)


def check_random(
    function: PreprocessingFn, name: str, specs: Mapping[str, tf.TensorSpec]
) -> Traced:
    """Refuses randomness, state and calls back into Python.

    Args:
      function: the user's, as it was loaded.
      name: its dotted path, for messages.
      specs: its inputs, see `record_batches.input_specs`.

    Returns:
      The guarded function's trace, for further checks.

    Raises:
      UserError: if there is some; it names what and, where it can, the line.
    """
    check_source(function, name)
    traced = trace(guard(function, name), specs)
    check_operations(traced, function, name)
    check_same(traced, trace(guard(function, name), specs), function, name)
    return traced


def check_operations(traced: Traced, function: Callable, name: str) -> None:
    """Refuses operations that are random, keep state, or call back into Python.

    Random operations without state (`tf.random.stateless_*`) are functions of their seed, so they
    may stay: a random projection is as fixed as any other matrix. Where they give an image another
    value for its place in the batch, `check_graph` finds it.

    Args:
      traced: the function's trace.
      function: the user's, whose file the lines are in.
      name: its dotted path, for messages.

    Raises:
      UserError: if there is one; it names the operation and, if known, the line.
    """
    lines = {
        operation.name: _line_of(operation, function) for operation in traced.graph.get_operations()
    }
    definition = traced.graph.as_graph_def()
    nested = [node for body in definition.library.function for node in body.node_def]
    for node in [*definition.node, *nested]:
        where = _write_line(lines.get(node.name))
        if "PyFunc" in node.op:
            raise UserError(
                f"preprocessing_fn {name} calls back into Python ({node.op}{where}): that code "
                "would not be in the saved graph; write it with TensorFlow's operations."
            )
        known = op_def_registry.get(node.op)
        if known and known.is_stateful and not _READERS.fullmatch(node.op):
            raise UserError(
                f"preprocessing_fn {name} uses the operation {node.op}{where}, which is random or "
                "keeps state: training, evaluation and serving would see different images; "
                f"{WAY_OUT}."
            )


def check_same(first: Traced, second: Traced, function: Callable, name: str) -> None:
    """Refuses a function that gives another graph when it is traced again.

    Args:
      first: the function's trace.
      second: another trace of it.
      function: the user's, whose file the lines are in.
      name: its dotted path, for messages.

    Raises:
      UserError: if a constant differs.
    """
    ones, others = (list(_constants(traced, function)) for traced in (first, second))
    for (one, line), (other, _) in zip(ones, others, strict=False):
        if one != other:
            raise UserError(
                f"preprocessing_fn {name} gives another constant each time it is traced"
                f"{_write_line(line)}: its value would be frozen; {WAY_OUT}."
            )
    if len(ones) != len(others):
        raise UserError(
            f"preprocessing_fn {name} gives another graph each time it is traced; {WAY_OUT}."
        )


def _constants(traced: Traced, function: Callable) -> Iterator[tuple[bytes, int | None]]:
    """Serialized constants with their lines: the graph's in order, then its functions', sorted."""
    scratch = traced.scratch_dir.encode()
    for operation in traced.graph.get_operations():
        if operation.type == "Const":
            value = _serialize_constant(operation.node_def)
            if scratch not in value:
                yield value, _line_of(operation, function)
    library = traced.graph.as_graph_def().library.function
    nodes = [node for body in library for node in body.node_def if node.op == "Const"]
    yield from ((value, None) for value in sorted(map(_serialize_constant, nodes)))


def _serialize_constant(node: Any) -> bytes:
    return node.attr["value"].SerializeToString(deterministic=True)


def _line_of(operation: tf.Operation, function: Callable) -> int | None:
    """The line of the function's file that made an operation."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        return None
    lines = [frame.lineno for frame in operation.traceback or [] if frame.filename == file]
    return lines[-1] if lines else None


def _write_line(line: int | None) -> str:
    return f" (line {line})" if line else ""
