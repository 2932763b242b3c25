"""Checks on a traced `preprocessing_fn`: what its outputs are, and what they depend on."""

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.transform.traced_function import Traced

# The types of tf.train.Example, which tf.Transform's feature spec is made of.
_SCHEMA_TYPES = (tf.float32, tf.int64, tf.string)


def check_outputs(traced: Traced, name: str) -> None:
    """Checks the outputs' types and shapes.

    Args:
      traced: the function's trace.
      name: its dotted path, for messages.

    Raises:
      UserError: if the image is not float32 of the input's shape, the label not int64 [batch], or
        a further output not of a kind that tf.Transform can write down.
    """
    inputs, outputs = traced.inputs, traced.outputs
    _check_image(outputs[contract.IMAGE_OUTPUT], inputs[contract.IMAGE_INPUT].shape, name)
    _check_label(outputs[contract.LABEL_OUTPUT], inputs, name)
    own = (contract.IMAGE_OUTPUT, contract.LABEL_OUTPUT)
    _check_further({key: value for key, value in outputs.items() if key not in own}, name)


def _check_image(image: tf.Tensor, shape: tf.TensorShape, name: str) -> None:
    if image.dtype != tf.float32:
        _refuse(name, "the image as float32", image, "cast it with tf.cast(image, tf.float32)")
    if image.shape.rank is None or image.shape.rank < 2 or None in image.shape[1:]:
        _refuse(
            name,
            "the image as [batch, ...] of known size",
            image,
            "keep the batch dimension first, and tell the size with tf.ensure_shape",
        )
    _check_batch(image, name)
    if image.shape[1:] != shape[1:]:
        _refuse(
            name,
            f"the image in the view's size {_write_shape(shape)}",
            image,
            "the model is built for that: set view.height_px, view.width_px and view.channels, and "
            "keep the size",
        )


def _check_label(
    label: tf.Tensor | tf.RaggedTensor, inputs: Mapping[str, tf.Tensor], name: str
) -> None:
    dtype, rank, wanted, way_out = tf.int64, 1, "int64 [batch]", "label_ids(inputs['label'])"
    if record.TAGS in inputs:
        rank, wanted = 2, "a RaggedTensor of int64 [batch, ?], ids of tags"
        way_out = f"tag_ids(inputs[{record.TAGS!r}])"
    elif record.VALUE in inputs:
        dtype, wanted = tf.float32, "float32 [batch]"
        way_out = f"keep_values(inputs[{record.VALUE!r}])"
    is_kind = isinstance(label, tf.RaggedTensor) == (record.TAGS in inputs)
    if label.dtype != dtype or label.shape.rank != rank or not is_kind:
        use = f"use image_pipeline.components.transform.labels.{way_out}"
        _refuse(name, f"the label as {wanted}", label, use)
    _check_batch(label, name)


def _check_further(outputs: Mapping[str, Any], name: str) -> None:
    """Checks outputs that feeding does not read: tf.Transform's schema has three types for them."""
    for key, output in outputs.items():
        if output.dtype not in _SCHEMA_TYPES:
            got = f"{output.dtype.name} {_write_shape(output.shape)}"
            raise UserError(
                f"preprocessing_fn {name} must return {key!r} as float32, int64 or string, which "
                f"is all that tf.Transform writes down, got {got}; cast it with tf.cast."
            )
        if isinstance(output, tf.Tensor) and not output.shape.rank:
            _refuse(name, f"{key!r} as [batch, ...]", output, "keep the batch dimension first")


def _check_batch(output: tf.Tensor, name: str) -> None:
    if output.shape[0] is not None:
        _refuse(
            name,
            "one output for each image of a batch of any size",
            output,
            "work on the batch as a whole, and reduce over other axes than the first",
        )


def check_dependencies(traced: Traced, name: str) -> None:
    """Checks that the image output depends on the image alone, and the label output not on it.

    Statistics of the whole data set, of any column, are constants in the graph, and so allowed.

    Args:
      traced: the function's trace.
      name: its dotted path, for messages.

    Raises:
      UserError: if it does not.
    """
    found = reach_inputs(traced, traced.outputs[contract.IMAGE_OUTPUT])
    if wrong := sorted(found - {contract.IMAGE_INPUT}):
        raise UserError(
            f"preprocessing_fn {name} makes the image output from {wrong}: when a model is served, "
            "only the image is known; use them for statistics, the label or further outputs only."
        )
    if contract.IMAGE_INPUT in reach_inputs(traced, traced.outputs[contract.LABEL_OUTPUT]):
        raise UserError(
            f"preprocessing_fn {name} makes the label output from the image: evaluation looks up "
            "labels without decoding images; make the label from the other inputs."
        )


def reach_inputs(traced: Traced, output: tf.Tensor) -> set[str]:
    """The names of the inputs whose values for a batch can change the output for that batch."""
    name_of = {tensor.op.name: name for name, tensor in traced.inputs.items()}
    reached: set[str] = set()
    waiting = [part.op for part in tf.nest.flatten(output, expand_composites=True)]
    while waiting:
        operation = waiting.pop()
        if operation.name not in reached:
            reached.add(operation.name)
            waiting.extend(tensor.op for tensor in operation.inputs)
    return {name_of[name] for name in reached & name_of.keys()}


def _refuse(name: str, wanted: str, got: tf.Tensor, way_out: str) -> None:
    shape = _write_shape(got.shape)
    raise UserError(
        f"preprocessing_fn {name} must return {wanted}, got {got.dtype.name} {shape}; {way_out}."
    )


def _write_shape(shape: tf.TensorShape) -> str:
    if shape.rank is None:
        return "of unknown shape"
    lengths: Iterable[int | None] = shape
    return "[" + ", ".join("?" if length is None else str(length) for length in lengths) + "]"
