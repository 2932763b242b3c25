"""Whether a model heeds the recipe's options: one that nobody reads would change nothing."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import keras
import pydantic

from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.options import OF_THE_COMPILER, TrainingOptions

_LOG = logging.getLogger(__name__)
# Who asks for these (the last is what `vars` asks for) may read everything in what they return.
_READING_ALL = ("model_copy", "model_dump", "model_dump_json", "__dict__")


def note_reads(options: TrainingOptions) -> tuple[TrainingOptions, set[str]]:
    """The same options, and a set that is given the name of each that is read from them."""
    read: set[str] = set()
    names = set(type(options).model_fields)

    class Noted(type(options)):  # type: ignore[misc]  # A class that is known at run time only.
        # Else pydantic reads this file's source for the fields' docstrings: 0.15 s.
        model_config = pydantic.ConfigDict(use_attribute_docstrings=False)

        def __getattribute__(self, name: str) -> Any:
            if name in names:
                read.add(name)
            elif name in _READING_ALL:
                read.update(names)
            return super().__getattribute__(name)

        def __repr__(self) -> str:  # What is printed is not heeded.
            return repr(options)

        __str__ = __repr__

        def __iter__(self) -> Any:
            read.update(names)
            return super().__iter__()

    noted = Noted.model_construct(**dict(options))
    read.clear()
    return noted, read


@contextlib.contextmanager
def use_policy(name: str) -> Iterator[None]:
    """Inside, Keras makes layers of this dtype policy."""
    usual = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(usual)


def compile_by_option(
    model: keras.Model, training: TrainingOptions, options: TrainingOptions, steps_per_epoch: int
) -> None:
    """Has the function that `training.compile` names compile the model, if it names one.

    Args:
      model: built.
      training: names the function.
      options: what it is given.
      steps_per_epoch: what it is given.

    Raises:
      UserError: if it cannot be imported, fails, or does not compile the model.
    """
    if training.compile is None:
        return
    function = load_named("training.compile", training.compile)
    model.compiled = False
    try:
        function(model, options, steps_per_epoch)
    except Exception as error:  # The user's own: it may raise anything.
        told = f"{describe_error(error)}".rstrip(".")
        raise UserError(
            f"training.compile={training.compile} failed: {told}. It is called as "
            "compile(model, options, steps_per_epoch), and must call model.compile."
        ) from error
    if not model.compiled:
        raise UserError(
            f"training.compile={training.compile} returned without having compiled the model; "
            "call model.compile in it."
        )


def check_heeded(model: keras.Model, options: TrainingOptions, read: set[str]) -> None:
    """Refuses options that were set, but that whoever built and compiled the model never read.

    Args:
      model: built and compiled.
      options: as they were set.
      read: names of those that were read.

    Raises:
      UserError: if one would change nothing; it names the option.
    """
    fields = type(options).model_fields
    if options.learning_rate != fields["learning_rate"].default and "learning_rate" not in read:
        # Not refused: a model may have a rate of its own for good reasons, whatever is set for all.
        _LOG.warning("training.learning_rate is not read by what compiles the model.")
    compiler = "training.model" if options.compile is None else "training.compile"
    for name in OF_THE_COMPILER:
        value = getattr(options, name)
        if value != fields[name].default and name not in read:
            raise UserError(
                f"training.{name}={value} would change nothing: "
                f"{compiler}={getattr(options, compiler.partition('.')[2])} compiles the model "
                "and does not read it. Leave it out, or read it there (as "
                "image_pipeline.components.models.compiling.compile_model reads all of the recipe)."
            )
    policy = options.dtype_policy
    # What holds layers, or the input, has the policy in any case.
    layers = [layer for layer in model._flatten_layers() if not isinstance(layer, keras.Model)]
    kinds = {layer.dtype_policy.name for layer in layers if layer.weights}
    if policy != "float32" and kinds and policy not in kinds:
        raise UserError(
            f"training.dtype_policy={policy} would change nothing: training.model={options.model} "
            "gives all its layers a type of their own. Leave it out, or let them have Keras's "
            "default."
        )
