"""How long the model takes for a step: alone, beside the input, and several in one call."""

import collections
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras

from image_pipeline.components.feeding.records import find_label_kind
from image_pipeline.components.tasks.choose_task import TASK_OF, find_task
from image_pipeline.components.tasks.detection import DETECTION
from image_pipeline.components.tasks.segmentation import SEGMENTATION
from image_pipeline.components.training.model_check import rebuild
from image_pipeline.components.training.unknown import leave_out_unknown
from image_pipeline.doctor.figures import time_batches
from image_pipeline.doctor.input import Subject

# Two batches are made in parallel, and so come in pairs.
_LEAST_STEPS = 2
# Steps in a call that are tried, and how often.
_COUNTS, _ROUNDS = (1, 2, 4, 8), 3
# Of a longer step, the call takes too small a part to be seen.
_LONGEST_S = 0.02

# Trains on a batch's images and labels; returns how many images these are.
Step = Callable[[Any, Any], int]


def wait_instead(step_ms: float) -> Step:
    """A step of a model elsewhere, which takes time, but no processor."""

    def wait(images: Any, labels: Any) -> int:
        time.sleep(step_ms / 1e3)
        return int(images.shape[0])

    return wait


class ModelStep:
    """A step of the run's own model.

    Attributes:
      model: compiled, for one step in a call.
      steps_a_call: how many steps training makes in one call, by its option or the model's own.
    """

    def __init__(self, subject: Subject):
        """Builds the model.

        Raises:
          UserError: if it cannot be loaded.
        """
        view, training, graph_dir = subject.view, subject.training, subject.graph_dir
        if graph_dir is None:
            self._task = TASK_OF[find_label_kind(subject.paths)]
            classes = len(subject.records.index.classes)
        else:
            self._task = find_task(graph_dir)
            classes = len(self._task.read_class_names(graph_dir))
        self._has_ids = graph_dir is not None
        least = 2 if self._task.activation == "softmax" else 1
        shape = (view.height_px, view.width_px, view.channels)
        keras.utils.set_random_seed(training.seed)
        self.model = rebuild(shape, training, max(classes, least), self._task, steps_per_epoch=1)
        self.steps_a_call, self.model.steps_per_execution = self.model.steps_per_execution, 1
        if self._has_ids and self._task.leaves_out_unknown:
            leave_out_unknown(self.model)

    def __call__(self, images: Any, labels: Any) -> int:
        """Trains on the batch."""
        self.model.train_on_batch(*self.make_input(images, labels))
        return int(images.shape[0])

    def make_input(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """The model's input: without a transform graph, raw pixels and a single class."""
        if self._has_ids:
            return images, labels
        floats = keras.ops.cast(images, "float32")
        if self._task is DETECTION:
            return floats, labels
        each = keras.ops.shape(images)[: 3 if self._task is SEGMENTATION else 1]
        return floats, keras.ops.zeros(each, "int64")


def measure_together(
    batches: Iterator[Any], step: Step, seconds: float, warm_up: int
) -> tuple[float, float]:
    """Measures training's loop.

    Args:
      batches: endless batches of images and labels.
      step: the model's training step.
      seconds: duration of the measurement.
      warm_up: steps before the clock starts, after which all buffers are as full as they get.

    Returns:
      Milliseconds from one step to the next, and how long of that the model waited for its batch.
    """
    waits: list[float] = []

    def take_steps() -> Iterator[int]:
        while True:
            asked_s = time.perf_counter()
            images, labels = next(batches)
            waits.append(time.perf_counter() - asked_s)
            step(images, labels)
            yield 1

    steps = time_batches(take_steps(), seconds, warm_up, _LEAST_STEPS)
    return steps.ms_an_image, 1e3 * statistics.fmean(waits[-steps.images :])


def measure_calls(
    subject: Subject, step: ModelStep, step_s: float, seconds: float
) -> dict[int, float]:
    """Trains on one batch repeatedly, with 1, 2, 4, 8 and the present number of steps per call.

    They take turns, so that other work on the machine disturbs all of them alike.

    Args:
      subject: provides the batch.
      step: of the model, which is the same afterwards.
      step_s: duration of a step.
      seconds: duration of all rounds of each number of steps, of at least two calls.

    Returns:
      Steps per call to images per second, the median of the rounds; empty if steps are so long that
      the overhead of a call cannot matter.
    """
    if step_s > _LONGEST_S:
        return {}
    model, size = step.model, subject.feeding.batch_size
    batch = subject.read_batches(subject.measured).take(1).map(step.make_input).cache().repeat()
    ends: list[float] = []  # Of each call, of which the first compiles; and of all.
    clock = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: ends.append(time.perf_counter()),
        on_epoch_end=lambda epoch, logs: ends.append(time.perf_counter()),
    )
    of_one_step = model.train_function
    functions: dict[int, Any] = {}  # Keras compiles one for each number of steps.
    rates = collections.defaultdict[int, list[float]](list)
    for _, count in itertools.product(range(_ROUNDS), sorted({*_COUNTS, step.steps_a_call})):
        times = max(2, round(seconds / _ROUNDS / (step_s * count)))
        ends.clear()
        model.steps_per_execution, model.train_function = count, functions.get(count)
        steps = (times + 1) * count
        model.fit(batch, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[clock])
        functions[count] = model.train_function
        rates[count].append(times * count * size / (ends[-1] - ends[0]))
    model.steps_per_execution, model.train_function = 1, of_one_step
    return {count: statistics.median(own) for count, own in rates.items()}
