"""Traces a user's `preprocessing_fn` without data, and explains its mistakes."""

import dataclasses
import inspect
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform import impl_helper

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.dotted import Named
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.messages import suggest
from image_pipeline.components.transform import statistics
from image_pipeline.components.transform.name_vocabulary import offer_order
from image_pipeline.components.transform.sums_analyzer import offer_sums

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
        with offer_sums(images, labels), offer_order(first):
            outputs = _call(named.function, name, inputs)
        _check_kind(outputs, name, record.TAGS in inputs)
        label = statistics.keep_statistics(
            outputs[contract.LABEL_OUTPUT], [statistics.name_statistic("records", records)]
        )
        return {**outputs, contract.LABEL_OUTPUT: label}

    return preprocessing_fn


class _Inputs(dict):
    """The inputs; asking for an unknown one explains what there is, and how to get more."""

    def __missing__(self, key: str) -> tf.Tensor:
        raise UserError(
            f"it reads the input {key!r}, but its inputs are {sorted(self)}"
            f"; {suggest(str(key), self)}Name further columns of a record in transform.columns."
        )


def _call(function: PreprocessingFn, name: str, inputs: Mapping[str, tf.Tensor]) -> Any:
    """Calls the user's function; errors name it, and the line where they arose."""
    try:
        return function(_Inputs(inputs))
    except UserError as error:
        raise UserError(f"preprocessing_fn {name}{_where(function, error)}: {error}") from error
    except Exception as error:
        if shortage := explain_shortage(error):  # tf.Transform saves statistics as it traces.
            raise shortage from error
        raise UserError(
            f"preprocessing_fn {name} failed{_where(function, error)}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _check_kind(outputs: Any, name: str, has_tags: bool) -> None:
    """Checks that the user's function returned the right kind of tensors."""
    wanted = {contract.IMAGE_OUTPUT: "float [batch, ...]", contract.LABEL_OUTPUT: "int64 [batch]"}
    if not isinstance(outputs, Mapping):
        raise UserError(
            f"preprocessing_fn {name} must return a dict of {wanted}, got "
            f"{type(outputs).__name__}; return such a dict."
        )
    if missing := [key for key in wanted if key not in outputs]:
        raise UserError(
            f"preprocessing_fn {name} must return a dict of {wanted}, got {sorted(outputs)}; "
            f"return {missing} too."
        )
    for key, output in outputs.items():
        if not isinstance(key, str):
            raise UserError(
                f"preprocessing_fn {name} must return a dict with strings as keys, got {key!r}; "
                "name the output."
            )
        if has_tags and key == contract.LABEL_OUTPUT and isinstance(output, tf.RaggedTensor):
            continue
        if key in wanted and not isinstance(output, tf.Tensor):
            raise UserError(
                f"preprocessing_fn {name} must return a dense tensor as {key!r}, got "
                f"{type(output).__name__}; make it dense, for example with .to_tensor()."
            )
        if not isinstance(output, tf.Tensor | tf.SparseTensor | tf.RaggedTensor):
            raise UserError(
                f"preprocessing_fn {name} must return tensors, got {type(output).__name__} as "
                f"{key!r}; leave it out, or make it a tensor with a batch dimension."
            )


def _where(function: PreprocessingFn, error: Exception) -> str:
    """The line of the function's own file where the error arose, if it was there."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        return ""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    return f" (line {lines[-1]})" if lines else ""
