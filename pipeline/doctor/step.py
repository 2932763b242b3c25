"""How long the model takes for a step, alone and while the input is being read."""

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import keras

from image_pipeline.components.feeding.found_columns import find_labels
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.tasks.choose_task import TASK_OF, find_task, name_model
from image_pipeline.components.tasks.detection import DETECTION
from image_pipeline.components.tasks.segmentation import SEGMENTATION
from image_pipeline.components.tasks.task import Task
from image_pipeline.components.training.profile import Profile, describe_trace, record_trace
from image_pipeline.components.training.recipe_check import compile_by_option
from image_pipeline.components.training.unknown import leave_out_unknown
from image_pipeline.doctor.clock import Rate, time_batches
from image_pipeline.doctor.subject import Subject

# Two batches are made in parallel, and so come in pairs.
_LEAST_STEPS = 2


class Step(Protocol):
    """A step of a model."""

    def __call__(self, images: Any, labels: Any) -> None:
        """Trains on one batch, and returns when the step is done."""


class SleepingStep:
    """Stands for the step of a model elsewhere: it takes time, but no processor."""

    def __init__(self, step_ms: float):
        """Sets the duration of a step, in milliseconds."""
        self.step_ms = step_ms

    def __call__(self, images: Any, labels: Any) -> None:
        """Waits."""
        del images, labels
        time.sleep(self.step_ms / 1e3)


class ModelStep:
    """A step of the run's own model."""

    def __init__(self, subject: Subject):
        """Builds the model.

        Raises:
          UserError: if it cannot be loaded.
        """
        view, graph_dir = subject.view, subject.graph_dir
        self._task = _find_task(subject)
        training = name_model(subject.training, self._task)
        assert training.model is not None
        build_model = find_builder(training.model, self._task.head)
        keras.utils.set_random_seed(training.seed)
        self._has_ids = graph_dir is not None
        names = self._task.read_class_names(graph_dir) if graph_dir is not None else None
        classes = _count_classes(subject) if names is None else len(names)
        shape = (view.height_px, view.width_px, view.channels)
        least = 2 if self._task.activation == "softmax" else 1
        self.model = build_model(shape, max(classes, least), training)
        compile_by_option(self.model, training, training, steps_per_epoch=1)
        if self._has_ids and self.model.compiled and self._task.leaves_out_unknown:
            leave_out_unknown(self.model)

    def __call__(self, images: Any, labels: Any) -> None:
        """Trains on the batch."""
        self.model.train_on_batch(*self.make_input(images, labels))

    def make_input(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """The model's input: without a transform graph, raw pixels and a single class."""
        if self._has_ids:
            return images, labels
        floats = keras.ops.cast(images, "float32")
        if self._task is DETECTION:
            return floats, labels
        each = keras.ops.shape(images)[: 3 if self._task is SEGMENTATION else 1]
        return floats, keras.ops.zeros(each, "int64")


def measure_step(step: Step, images: Any, labels: Any, seconds: float) -> Rate:
    """Measures steps on one batch, repeated; sleeping steps take their given time."""
    size = int(images.shape[0])
    if isinstance(step, SleepingStep):
        return Rate(images=size, wall_s=step.step_ms / 1e3, cpu_s=0.0)

    def make_steps() -> Iterator[int]:
        while True:
            step(images, labels)
            yield size

    return time_batches(make_steps(), seconds, warm_up=1, least=1)


def measure_together(
    batches: Iterable[Any], step: Step, seconds: float, warm_up: int
) -> tuple[float, float]:
    """Measures training's loop.

    Args:
      batches: endless batches of images and labels.
      step: the model's training step.
      seconds: duration of the measurement.
      warm_up: steps before the clock starts, after which all buffers are as full as they get; it
        ends early when the time is over, since a faster input has filled its buffers by then.

    Returns:
      Milliseconds from one step to the next, and how long of that the model waited for its batch.
    """
    taken, total_s = iter(batches), 0.0
    waits: list[float] = []
    begun_s = time.perf_counter()
    for number, (images, labels) in enumerate(itertools.islice(taken, warm_up)):
        step(images, labels)
        if number + 1 >= _LEAST_STEPS and time.perf_counter() - begun_s > seconds:
            break
    start_s = time.perf_counter()
    while total_s < seconds or len(waits) < _LEAST_STEPS:
        asked_s = time.perf_counter()
        images, labels = next(taken)
        waits.append(time.perf_counter() - asked_s)
        step(images, labels)
        total_s = time.perf_counter() - start_s
    return 1e3 * total_s / len(waits), 1e3 * sum(waits) / len(waits)


def profile_steps(
    batches: Iterable[Any], step: Step, steps: int, warm_up: int, folder: str
) -> Profile:
    """Traces steps of training, for TensorBoard.

    Args:
      batches: batches of images and labels, more than there are steps.
      step: the model's training step.
      steps: how many to trace.
      warm_up: steps before those, which compile and fill buffers.
      folder: where the trace goes.
    """
    taken = iter(batches)
    for images, labels in itertools.islice(taken, warm_up):
        step(images, labels)
    with record_trace(folder):
        for images, labels in itertools.islice(taken, steps):
            step(images, labels)
    return describe_trace(folder, steps)


def _find_task(subject: Subject) -> Task:
    if subject.graph_dir is not None:
        return find_task(subject.graph_dir)
    return TASK_OF[find_labels(subject.patterns)]


def _count_classes(subject: Subject) -> int:
    index = subject.records.index
    return 2 if index is None else len(index.classes)
