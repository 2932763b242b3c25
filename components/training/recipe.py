"""The recipe's options, applied to a model: weights, types, how it is compiled, fine-tuning.

An option that nobody reads would change nothing, so it is seen whether a model heeds them.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import pydantic
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.compiling import Scaled, find_inner
from image_pipeline.components.models.names import IMAGENET
from image_pipeline.components.models.options import OF_THE_COMPILER, TrainingOptions
from image_pipeline.components.models.weights import carry_over, find_heads, read_weights
from image_pipeline.components.tasks.signatures import (
    CLASSES,
    IMAGE_BYTES,
    MODEL_FILE,
    SERVE_IMAGES,
)
from image_pipeline.components.trees import fetch_tree

WARM_START = "training.warm_start=latest_blessed"
_LOG = logging.getLogger(__name__)
# Who asks for these (the last is what `vars` asks for) may read everything in what they return.
_READING_ALL = ("model_copy", "model_dump", "model_dump_json", "__dict__")


def choose_start(training: TrainingOptions, base_model: str | None) -> TrainingOptions:
    """The options with the latest good model's weights, if they ask for these and it exists.

    Where there is none, they no longer ask for it, so that what is printed is what they start from.

    Raises:
      UserError: if there is a model that they do not ask for.
    """
    if not base_model:
        return training.model_copy(update={"warm_start": "none"})
    if training.warm_start == "none":
        raise UserError(
            "training.warm_start must be latest_blessed where the Trainer has a base_model, "
            f"{base_model}, but is 'none', which would leave it unused; set it in custom_config's "
            "training, or leave base_model out."
        )
    return training.model_copy(update={"weights": base_model})


def name_start(training: TrainingOptions) -> str | None:
    """Says where the weights come from, as messages begin; None if they are random."""
    if training.weights is None:
        return training.model if training.model and training.model.endswith(".keras") else None
    if training.warm_start != "none" and is_ours(training.weights):
        return f"{WARM_START} ({training.weights})"
    return f"training.weights={training.weights}"


def start_from(
    model: keras.Model, training: TrainingOptions, classes: Sequence[str] | None = None
) -> None:
    """Gives a model the weights that the options name, if they do.

    Args:
      model: built; changed.
      training: options, as `choose_start` gives them.
      classes: names of the model's values in their order; None if they are not known yet.

    Raises:
      UserError: if there are no such weights, or they do not fit.
    """
    if training.weights is None or training.weights == IMAGENET:
        return  # A network by name is built with these.
    source = str(name_start(training))
    arrays = read_weights(training.weights, model, source)
    known = classes is not None and is_ours(training.weights)
    old_classes = read_classes(training.weights) if known else None
    carry_over(model, arrays, source, old_classes, classes)


def is_ours(path: str) -> bool:
    """Whether it is a SavedModel's folder, such as a pushed model's."""
    return files.exists(files.join(path, MODEL_FILE))


def read_classes(folder: str) -> tuple[str, ...] | None:
    """The names of an exported model's values, in their order; None if it does not tell them."""
    try:
        signatures: Any = tf.saved_model.load(fetch_tree(folder)).signatures
        outputs: Any = signatures[SERVE_IMAGES](**{IMAGE_BYTES: tf.constant([b""])})
    except (KeyError, TypeError):  # exported by others
        return None
    except Exception as error:  # Of a damaged file, TensorFlow raises many kinds.
        raise explain_shortage(error) or UserError(
            f"The model {folder} cannot be loaded: {describe_error(error)}; give another."
        ) from error
    names = outputs.get(CLASSES)
    return None if names is None else tuple(name.decode() for name in names.numpy()[0].tolist())


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
        detail = f"{describe_error(error)}".rstrip(".")
        raise UserError(
            f"training.compile={training.compile} failed: {detail}. It is called as "
            "compile(model, options, steps_per_epoch), and must call model.compile."
        ) from error
    if not model.compiled:
        raise UserError(
            f"training.compile={training.compile} returned without having compiled the model; "
            "call model.compile in it."
        )


def check_heeded(model: keras.Model, options: TrainingOptions, read: set[str]) -> None:
    """Refuses options that were set, but that whoever built and compiled the model never read.

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


class Phases:
    """Fine-tuning in two phases: the head alone, then all of the network.

    Without `training.fine_tuning` there is one, and nothing is done. Which phase it is follows from
    the epoch, and one optimizer serves both, so that training that was interrupted goes on from its
    checkpoint in either. It begins the second phase as a new one would: Adam, for one, would else
    take the weights that learn only now for some that have hardly any gradients, and move them up
    to six times as fast as its learning rate says.
    """

    def __init__(self, model: keras.Model, training: TrainingOptions, steps_per_epoch: int = 1):
        """Takes a compiled model whose weights all learn, and nothing of which is restored yet.

        Raises:
          UserError: if nothing tells its head from the rest.
        """
        self._model, self._rate = model, training.learning_rate
        self._options = training.fine_tuning
        if self._options is None:
            return
        self._first_step = self._options.head_epochs * steps_per_epoch
        self._body = _list_body(model, training)
        # Of every weight, so that the optimizer's state is the same in both phases.
        model.optimizer.build(model.trainable_variables)
        self._optimizer = find_inner(model.optimizer)
        # Nearly all of it is zeros, which need not be kept.
        values = (np.asarray(variable) for variable in self._optimizer.variables)
        self._fresh = [value if value.any() else np.zeros([], value.dtype) for value in values]

    @property
    def boundary(self) -> int | None:
        """The first epoch of the second phase."""
        return None if self._options is None else self._options.head_epochs

    def enter(self, epoch: int, step: int = 0) -> None:
        """Freezes, and sets the optimizer, as the phase of this step of an epoch wants it."""
        if self._options is None:
            return
        is_first = epoch < self._options.head_epochs
        for layer, has_learned in self._body:  # A layer before those in it, which it would change.
            is_norm = isinstance(layer, keras.layers.BatchNormalization)
            learns = not is_norm or self._options.batch_norm == "trained"
            layer.trainable = has_learned and learns and not is_first
        if (epoch, step) == (self._options.head_epochs, 0):
            for variable, value in zip(self._optimizer.variables, self._fresh, strict=True):
                variable.assign(np.broadcast_to(value, variable.shape))
        if not is_first:
            rate = self._options.learning_rate
            _set_rate(self._optimizer, self._rate, rate, self._first_step)
        # Keras compiles into the function of a step which weights learn. Without the earlier one:
        # that of several devices is made only where there is none.
        self._model.train_function = None
        self._model.make_train_function(force=True)


def _set_rate(optimizer: Any, first: float, rate: float, first_step: int) -> None:
    """Sets a rate; a schedule that begins with the first one is scaled to it."""
    # Keras's public attribute is the rate at the present step.
    schedule = optimizer._learning_rate
    if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        optimizer.learning_rate = rate
    elif not isinstance(schedule, Scaled):
        optimizer.learning_rate = Scaled(schedule, rate / first, first_step)


def _list_body(
    model: keras.Model, training: TrainingOptions
) -> list[tuple[keras.layers.Layer, bool]]:
    """The layers before the head, also those in others; and whether each learns.

    What a user's own model froze stays frozen.
    """
    heads = find_heads(model)
    if not heads:
        raise UserError(
            f"training.fine_tuning freezes all but the head, but training.model="
            f"{training.model} is a class of its own, which does not tell its head; build it "
            "from keras.Input to its outputs, or leave fine_tuning out."
        )
    of_heads = {id(layer) for head in heads for layer in head._flatten_layers()}
    body = [
        (layer, bool(layer.trainable))
        for layer in model._flatten_layers(include_self=False)
        if layer.weights and id(layer) not in of_heads and not isinstance(layer, keras.Model)
    ]
    if not any(learns for _, learns in body):
        raise UserError(
            f"training.fine_tuning freezes all but the head, but training.model="
            f"{training.model} has no other layers that learn; leave fine_tuning out."
        )
    return body
