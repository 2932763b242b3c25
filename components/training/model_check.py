"""Checks whether a user's model can be trained, exported and served, before it is trained.

Its function is called, and the model is run on a batch of four images, so that mistakes are
reported at once and not after hours of training.
"""

import dataclasses
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.choose_task import find_task, name_model
from image_pipeline.components.tasks.image_tasks import CLASSIFICATION
from image_pipeline.components.tasks.task import Task, is_tensor
from image_pipeline.components.training.early_stopping import check_monitor
from image_pipeline.components.training.non_finite import are_finite
from image_pipeline.components.training.recipe import (
    Phases,
    check_heeded,
    compile_by_option,
    note_reads,
    start_from,
    use_policy,
)
from image_pipeline.components.views.options import ViewOptions

_IMAGES = 4
# How far from 1 a row's sum may be: float16 and bfloat16 have three and two digits.
_CLOSE, _CLOSE_IN_HALF = 1e-3, 5e-2
# Keras's losses for classes, as strings and functions name them: they read probabilities.
_OF_PROBABILITIES = (
    *("sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy"),
)


_NO_GRAPH = "cannot be made into a TensorFlow graph, which training and export need"
Counted = Literal["exactly", "at most", "not"]


@dataclasses.dataclass(frozen=True)
class CheckedModel:
    """A model that has passed.

    Attributes:
      model: compiled and built.
      gives_logits: whether it gives logits, so that the task's activation must follow.
      task: what it learns.
    """

    model: keras.Model
    gives_logits: bool
    task: Task = CLASSIFICATION

    def predict(self, images: tf.Tensor) -> Any:
        """Final outputs for normalised images, float32."""
        outputs = self.model(images, training=False)
        outputs = tf.nest.map_structure(lambda each: tf.cast(each, tf.float32), outputs)
        return self.task.finish(outputs) if self.gives_logits else outputs


def build_checked_model(
    view: ViewOptions,
    feeding: FeedingOptions,
    training: TrainingOptions,
    num_classes: int,
    counted: Counted = "exactly",
    task: Task = CLASSIFICATION,
    class_names: Sequence[str] | None = None,
    steps_per_epoch: int = 1,
) -> CheckedModel:
    """Calls `training.model` and checks what it returns.

    Args:
      view: the model's input size.
      feeding: the images' type, and whether labels are shares of classes.
      training: names the function, which gets it.
      num_classes: how many classes there are.
      counted: whether the model must give that many values ("exactly"), or no more ("at most", if
        some class may turn out to have no record), or any number ("not").
      task: what it learns.
      class_names: of the model's values, if they are known: weights of a pushed model's head are
        taken over by them.
      steps_per_epoch: batches of an epoch, for `training.compile`; 1 where nobody knows it yet.

    Raises:
      UserError: if it cannot be trained, exported or served; it names training.model.
    """
    name = name_model(training, task).model or task.default_model
    build = find_builder(name, task.head)
    keras.utils.set_random_seed(training.seed)
    check = _Check(name, view, num_classes, task)
    shape = (view.height_px, view.width_px, view.channels)
    # The function is called with options that note which of them it reads.
    noted, read = note_reads(training)
    with use_policy(training.dtype_policy):
        model = check.call("failed", lambda: build(shape, num_classes, noted))
        check.is_model(model)
        images = _make_images(shape, feeding.dtype)
        if not model.built:  # So that there are weights.
            check.predict(model, images)
        start_from(model, training, class_names)
        if training.compile is not None:
            read.clear()  # Whatever the model was compiled with is replaced.
            compile_by_option(model, training, noted, steps_per_epoch)
    if not model.compiled or model.optimizer is None:
        check.refuse_model("is not compiled; call model.compile in it")
    check_heeded(model, training, read)
    if training.steps_per_execution is not None:
        model.steps_per_execution = training.steps_per_execution
    outputs = check.predict(model, images)
    check.outputs(outputs, counted)
    check.weights(model)
    Phases(model, training)  # which refuses a model that has no head, or nothing else
    has_own_step = type(model).train_step is not keras.Model.train_step
    if not has_own_step:  # It may do without loss and metrics.
        labels, kind = task.make_labels(outputs, feeding.gives_shares)
        what = f"has a loss or a metric that fails on {kind} as labels"
        check.call(what, lambda: model.compute_loss(images, labels, outputs))
        metrics = check.call(what, lambda: model.compute_metrics(images, labels, outputs))
        model.reset_metrics()
        if training.early_stopping_patience is not None and metrics:
            known = [*metrics, *(f"val_{name}" for name in metrics)]
            check_monitor(training.early_stopping_monitor, known)
    of_images = tf.TensorSpec([None, *shape], images.dtype)
    check.export_graph(model, of_images)
    if not (model.run_eagerly or has_own_step):
        traced = check.call(_NO_GRAPH, lambda: _trace(model, of_images, training=True))
        check.find_values(traced.structured_outputs, ", when it is trained")
    return CheckedModel(model, check.gives_logits(model, outputs), task)


def check_for_export(
    model: keras.Model, transform_graph_dir: str
) -> tuple[CheckedModel, ViewOptions, list[str]]:
    """Checks whether a model that somebody else has made can be exported, trained or not.

    Returns:
      The model, its input size, and the names of its values.

    Raises:
      UserError: if it cannot be, or there is no such graph.
    """
    view, task = read_graph(transform_graph_dir).view, find_task(transform_graph_dir)
    names = task.read_class_names(transform_graph_dir)
    check = _Check(None, view, len(names), task)
    check.is_model(model)
    shape = (view.height_px, view.width_px, view.channels)
    images = _make_images(shape, "float32")
    outputs = check.predict(model, images)
    check.outputs(outputs, "exactly")
    check.weights(model)
    check.export_graph(model, tf.TensorSpec([None, *shape], images.dtype))
    return CheckedModel(model, check.gives_logits(model, outputs), task), view, names


def notice_loss(checked: CheckedModel) -> list[str]:
    """That a loss takes probabilities for logits: a sentence, or none.

    Keras goes back to the logits only where the model's own last step is the activation.
    """
    if checked.gives_logits or not getattr(_find_loss(checked.model), "from_logits", False):
        return []
    return [
        f"the model gives probabilities, but has a loss that reads logits (from_logits=True); "
        f"compile the loss without it, or leave the {checked.task.activation} out"
    ]


def rebuild(
    shape: tuple[int, int, int],
    training: TrainingOptions,
    num_classes: int,
    task: Task,
    steps_per_epoch: int,
) -> keras.Model:
    """What `build_checked_model` has built, once more, for a strategy's scope; unlike weights."""
    build = find_builder(name_model(training, task).model or task.default_model, task.head)
    with use_policy(training.dtype_policy):
        model = build(shape, num_classes, training)
        compile_by_option(model, training, training, steps_per_epoch)
    if training.steps_per_execution is not None:
        model.steps_per_execution = training.steps_per_execution
    return model


def _trace(model: keras.Model, images: tf.TensorSpec, training: bool = False) -> Any:
    function = tf.function(lambda batch: model(batch, training=training), autograph=False)
    return function.get_concrete_function(images)


class _Check:
    """The checks of a model; every error names it.

    `name` is that of the function that made it; None if it was given as it is.
    """

    def __init__(self, name: str | None, view: ViewOptions, num_classes: int, task: Task):
        self._classes = num_classes
        self._task = task
        self._view = view
        size = f"[batch, {view.height_px}, {view.width_px}, {view.channels}]"
        takes = f"images {size} and gives {task.kind} {task.describe_shape(view)}"
        if name is None:
            self._subject, self._model, self._given = "The model", "The model", "is"
            self._wanted, self._when = f"It must be a keras.Model that takes {takes}", ""
        else:
            self._subject, self._given = f"training.model={name}", "returned"
            self._model = f"{self._subject} returned a model that"
            self._when = " before it is trained"
            self._wanted = (
                "build_model(input_shape, num_classes, options) must return one compiled "
                f"keras.Model that takes {takes}"
            )

    def call(self, what: str, function: Callable[[], Any]) -> Any:
        """Calls the user's code, which may raise any error."""
        try:
            return function()
        except UserError:  # of one of this package's models
            raise
        except Exception as error:
            detail = f"{describe_error(error)}"
            self._refuse(f"{what}{_find_place(error)}: {detail}", error)

    def predict(self, model: keras.Model, images: tf.Tensor) -> Any:
        """The outputs of the model for images."""
        what = f"failed on images {list(images.shape)}"
        return self.call(what, lambda: model(images, training=False))

    def is_model(self, model: Any) -> None:
        if not isinstance(model, keras.Model):
            self._refuse(f"{self._given} {_name_kind(model)}, which is not a keras.Model")

    def outputs(self, outputs: Any, counted: Counted) -> None:
        values = self.find_values(outputs)
        if not self._task.has_shape(outputs, _IMAGES, self._view):
            given = tf.nest.map_structure(lambda x: f"{x.dtype.name} {list(x.shape)}", outputs)
            self.refuse_model(f"gives {given} for {_IMAGES} images")
        count = values.shape[-1]
        too_many = counted != "not" and count > self._classes
        if too_many or (counted == "exactly" and count < self._classes):
            self.refuse_model(
                f"gives {count} values per {self._task.each}, but there are {self._classes} "
                "classes; give its last layer num_classes values"
            )
        if not all(np.isfinite(_as_floats(each)).all() for each in tf.nest.flatten(outputs)):
            self.refuse_model(f"gives NaN or infinity{self._when}")

    def weights(self, model: keras.Model) -> None:
        """Checks that weights are finite: neither a checkpoint nor the export accepts others."""
        if not are_finite(model.weights):
            self.refuse_model(
                "has NaN or infinity among its weights; make a mask of infinity in call, if it "
                "needs one"
            )

    def export_graph(self, model: keras.Model, images: tf.TensorSpec) -> None:
        """Traces the model as for export."""
        served = self.call(_NO_GRAPH, lambda: _trace(model, images))
        known = {id(variable.handle) for variable in served.graph.variables}
        captured = (each for each in served.captured_inputs if each.dtype == tf.resource)
        if any(id(each) not in known for each in captured):
            self.refuse_model(
                "holds a table or another resource of TensorFlow's, which cannot be exported; keep "
                "values in weights, or look them up in transform.preprocessing_fn"
            )

    def gives_logits(self, model: keras.Model, outputs: Any) -> bool:
        """Whether outputs are logits; refuses them if the loss reads probabilities."""
        values = self.find_values(outputs)
        rows = _as_floats(values).reshape(-1, values.shape[-1])
        close = _CLOSE if values.dtype == tf.float32 else _CLOSE_IN_HALF
        if self._task.are_final(rows, close):
            return False
        if _reads_probabilities(_find_loss(model)):
            # Of noise: the logits of zeros may be zeros, which say nothing of the others.
            row = next(row for row in rows[::-1] if not self._task.are_final(row[None], close))
            self.refuse_model(
                f"gives outputs that are not probabilities (a row has values from {row.min():.3g} "
                f"to {row.max():.3g}, and the sum {row.sum():.3g}), but has a loss that reads them "
                f"as such; end it in a {self._task.activation}, or compile the loss with "
                "from_logits=True"
            )
        return True

    def find_values(self, outputs: Any, when: str = "") -> tf.Tensor:
        if (values := self._task.find_values(outputs)) is None:
            given = _name_kind(outputs)
            self.refuse_model(f"gives {given}, not {self._task.kind}{when}")
        return values

    def refuse_model(self, what: str) -> None:
        raise UserError(f"{self._model} {what}. {self._wanted}.")

    def _refuse(self, what: str, cause: BaseException | None = None) -> None:
        detail = what.rstrip(".")
        raise UserError(f"{self._subject} {detail}. {self._wanted}.") from cause


def _make_images(shape: tuple[int, int, int], dtype: str) -> tf.Tensor:
    """Zeros, and noise like normalised images: for zeros alone, logits may look like shares."""
    noise = np.random.default_rng(0).standard_normal((_IMAGES - 1, *shape))
    return tf.cast(np.concatenate([np.zeros((1, *shape)), noise]), dtype)


def _as_floats(outputs: tf.Tensor) -> np.ndarray:
    return tf.cast(outputs, tf.float64).numpy()


def _find_loss(model: keras.Model) -> Any:
    (loss, *_) = keras.tree.flatten(model.loss) or [None]
    return loss


def _reads_probabilities(loss: Any) -> bool:
    """Whether a loss is known to read probabilities; for a user's own it is unknown."""
    if (from_logits := getattr(loss, "from_logits", None)) is not None:
        return not from_logits
    return (loss if isinstance(loss, str) else getattr(loss, "__name__", "")) in _OF_PROBABILITIES


def _name_kind(value: Any) -> str:
    if is_tensor(value):
        return "one tensor"
    if isinstance(value, dict):
        return f"a dict of {sorted(map(str, value))}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _find_place(error: BaseException) -> str:
    """The last line of the user's own code in a traceback, if there is one."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if f"{os.sep}site-packages{os.sep}" not in frame.filename
        and os.path.isfile(frame.filename)
        and not os.path.samefile(frame.filename, __file__)
    ]
    return f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno})" if own else ""
