"""Applies a list of random steps to a batch."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx
from tensorflow.python.autograph.impl import api as autograph

from image_pipeline.components.augment import (
    color,
    draws,
    erase,
    geometry,
    mix,
    options,
    rand_augment,
)
from image_pipeline.components.augment.batch import Batch, replace_boxes
from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.options import Options

# Of a batch and its keys, uint64 [batch], to a batch of the same shape.
StepFunction = Callable[[Batch, tf.Tensor], Batch]
# Of each step, the function of its name that takes its options (`rand_augment` has others of such
# names); the crop is made while images are decoded.
_FUNCTIONS: dict[str, Callable[[Batch, tf.Tensor, Any], Batch]] = {
    name: vars(module)[name]
    for module in (color, erase, geometry, mix, rand_augment)
    for name, step in options.STEPS.items()
    if getattr(vars(module).get(name), "__annotations__", {}).get("options") is step
}


def apply_steps(batch: Batch, keys: tf.Tensor, steps: Sequence[Options]) -> Batch:
    """Applies steps in their order.

    Args:
      batch: images and what moves with them.
      keys: uint64 [batch], see `keys.record_keys`. Each step gets keys of its own, by its place in
        the list.
      steps: options of the steps. `RandomResizedCrop` is skipped: it is applied while the images
        are decoded.

    Raises:
      UserError: if a user's function cannot be imported or called, fails, or gives anything but
        images (and masks, or boxes) of the same type and shape.
    """
    for _, _, function in step_functions(steps):
        batch = function(batch, keys)
    return batch


def step_functions(steps: Sequence[Options]) -> list[tuple[int, Options, StepFunction]]:
    """The steps' places in the list, options and functions, in their order; see `apply_steps`."""
    return [
        (place, step, functools.partial(_apply_step, step=step, place=place))
        for place, step in enumerate(steps)
        if not isinstance(step, options.RandomResizedCrop)
    ]


def _apply_step(batch: Batch, keys: tf.Tensor, step: Options, place: int) -> Batch:
    own_keys = draws.fold(keys, place)
    if isinstance(step, options.UserStep):
        return _apply_user_step(batch, own_keys, step)
    assert isinstance(step, options.RandomStep)
    return _FUNCTIONS[step.op](batch, own_keys, step)


def check_user_steps(steps: Sequence[Options], field: str | None = None) -> None:
    """Checks users' functions before there are any images; they must take what moves with them.

    Raises:
      UserError: if one cannot be imported, or does not take its arguments.
    """
    for step in steps:
        if isinstance(step, options.UserStep):
            _load_function(step, field)


def _apply_user_step(batch: Batch, keys: tf.Tensor, step: options.UserStep) -> Batch:
    field = next((each for each in _SHAPES if getattr(batch, each) is not None), None)
    function = functools.partial(_call, step, _load_function(step, field))
    if field is None:
        images = function(batch.images, keys)
        return batch._replace(images=_check_images(images, batch.images, step.op))
    before = getattr(batch, field)
    made = function(batch.images, keys, **{field: before})
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise UserError(f"the step {step.op} must give images and {field}, as a pair; return both.")
    images = _check_images(made[0], batch.images, step.op)
    if field == "masks":
        return batch._replace(images=images, masks=_check_images(made[1], before, step.op, field))
    way_out = "move all of them: those that have left the image are dropped afterwards"
    types = (tf.float32, tf.float64)
    boxes = _check(made[1], before, step.op, "float32 boxes", types, way_out)
    return replace_boxes(batch._replace(images=images), boxes)


def _call(step: options.UserStep, function: Callable[..., Any], *tensors: Any, **field: Any) -> Any:
    """Calls a user's function; an error of it names the step."""
    try:
        return _translate(function)(*tensors, **field, **step.arguments)
    except (UserError, tf.errors.OpError, NotImplementedError):  # XLA's refusals are among them.
        raise
    except Exception as error:  # The function is the user's own: it may raise anything.
        raise UserError(
            f"the step {step.op} failed with {describe_error(error)}. Put that right; and mind "
            "that it is traced for batches of any size: images.shape[0] may be None, where "
            "tf.shape(images)[0] is the size."
        ) from error


def _translate(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets AutoGraph translate a user's function, which may ask `if` of a tensor.

    All around it is traced without AutoGraph. (A `tf.function` would do, but if tracing it for a
    data set fails, TensorFlow 2.21 ends the process when the graph is collected.)
    """
    enabled = ag_ctx.ControlStatusCtx(ag_ctx.Status.ENABLED)
    convert = autograph.convert(recursive=True, user_requested=False, conversion_ctx=enabled)
    return convert(function)


_SHAPES: dict[str, str] = {
    "masks": "uint8 [batch, height, width, 1], class ids; 255 is none",
    "boxes": "float32 [batch, boxes, 4]: top, left, bottom, right as shares of the sides",
}


def _load_function(step: options.UserStep, field: str | None) -> Callable[..., Any]:
    """Imports a user's function, and checks that it takes images, keys and the step's arguments."""
    function = load_named(f"the step {step.op}", step.op)
    if not callable(function):
        raise UserError(
            f"a step must be a function, but {step.op} is of type {type(function).__name__}; "
            "name a function that takes images and keys."
        )
    try:
        further = {} if field is None else {field: field}
        inspect.signature(function).bind("images", "keys", **further, **step.arguments)
    except TypeError as error:
        if field is not None and f"'{field}'" in str(error):
            raise UserError(
                f"the step {step.op} must move {field} with their images: let it take {field}= "
                f"({_SHAPES[field]}) and return images and {field}. One that changes colours "
                "returns them as they are."
            ) from error
        raise UserError(
            f"the step {step.op} must take images, keys and its arguments by name "
            f"({', '.join(step.arguments) or 'it has none'}), got: {error}; change its parameters "
            "or the step's arguments."
        ) from error
    return function


_WAYS_OUT = {
    True: "round and clip to 0..255, cast to tf.uint8",
    False: "cast to tf.float32",
}


def _check_images(images: Any, before: tf.Tensor, path: str, what: str = "images") -> tf.Tensor:
    """Checks what a user's function returns for the images (or masks) `before`."""
    cast = _WAYS_OUT[before.dtype == tf.uint8]
    way_out = f"{cast} and keep how many there are, height, width and channels"
    return _check(images, before, path, f"{before.dtype.name} {what}", (before.dtype,), way_out)


def _check(
    made: Any,
    before: tf.Tensor,
    path: str,
    what: str,
    types: tuple[tf.DType, ...],
    way_out: str,
) -> tf.Tensor:
    """Checks what a user's function has made of `before`, while the step is traced.

    Raises:
      UserError: if it is of none of the types, or not of the same shape.
    """
    is_tensor = tf.is_tensor(made)
    same = is_tensor and made.dtype in types and made.shape.is_compatible_with(before.shape)
    if not same:
        came = f"{made.dtype.name} {made.shape}" if is_tensor else type(made).__name__
        raise UserError(
            f"the step {path} must give {what} of the shape that it got, {before.shape}, but gave "
            f"{came}; {way_out}."
        )
    # This may not be known until it runs. (If compiled, the shapes are known, and XLA drops this.)
    as_many = tf.debugging.assert_equal(
        tf.shape(made)[0],
        tf.shape(before)[0],
        f"the step {path} must give as many images as it got; do not leave out any",
    )
    with tf.control_dependencies([as_many] if as_many is not None else []):
        return tf.ensure_shape(tf.identity(made), before.shape)
