"""What is gained by several steps in one call of the model: Keras's `steps_per_execution`."""

import time
from collections.abc import Callable
from typing import Any

import keras

from image_pipeline.doctor.race import race
from image_pipeline.doctor.step import ModelStep
from image_pipeline.doctor.subject import Subject

_COUNTS = (1, 2, 4, 8)


class _ExecutionClock(keras.callbacks.Callback):
    """Measures from the end of the first call, which compiles, to the end of the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.start_s: float | None = None
        self.wall_s = 0.0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.start_s is None:
            self.start_s = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        assert self.start_s is not None  # There was a batch.
        self.wall_s = time.perf_counter() - self.start_s


def count_present_steps(subject: Subject, step: ModelStep) -> int:
    """How many steps training makes per call: by its option, or as the model was compiled."""
    return subject.training.steps_per_execution or step.model.steps_per_execution


def measure_executions(
    subject: Subject, step: ModelStep, step_s: float, seconds: float
) -> dict[str, list[float]]:
    """Trains on one batch repeatedly, with 1, 2, 4, 8 and the present number of steps per call.

    Args:
      subject: provides the batch.
      step: the model; its `steps_per_execution` is the same afterwards.
      step_s: duration of a step. Numbers of steps that would take much longer than `seconds` are
        left out: the overhead of a call cannot matter then.
      seconds: duration of each measurement.

    Returns:
      Steps per call to images per second in each round.
    """
    model = step.model
    batch = subject.read_batches(subject.measured).take(1).map(step.make_input).cache().repeat()
    before, settings = model.steps_per_execution, {}
    present = count_present_steps(subject, step)
    for count in sorted({*_COUNTS, present}):
        calls = max(2, round(seconds / (step_s * count)))
        if count in (1, present) or calls * count * step_s <= 4 * seconds:
            size = subject.feeding.batch_size
            settings[str(count)] = _time_calls(model, batch, count, calls, size)
    figures = race(settings)
    model.steps_per_execution = before
    model.train_function = None
    return figures


def _time_calls(
    model: Any, batch: Any, count: int, calls: int, batch_size: int
) -> Callable[[], float]:
    """A measurement of this many calls of this many steps, in images per second."""
    compiled = None  # Keras compiles the first time, for this number of steps.

    def measure() -> float:
        nonlocal compiled
        model.steps_per_execution, model.train_function = count, compiled
        clock = _ExecutionClock()
        steps = (calls + 1) * count
        model.fit(
            batch, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=0, callbacks=[clock]
        )
        compiled = model.train_function
        return calls * count * batch_size / clock.wall_s

    return measure
