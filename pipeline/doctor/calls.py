"""What is gained by several steps in one call of the model: Keras's `steps_per_execution`."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import keras

from image_pipeline.doctor.step import ModelStep
from image_pipeline.doctor.subject import Subject

_COUNTS, _ROUNDS = (1, 2, 4, 8), 3
# Of a longer step, the call takes too small a part to be seen.
_LONGEST_S = 0.02


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
) -> dict[int, float]:
    """Trains on one batch repeatedly, with 1, 2, 4, 8 and the present number of steps per call.

    They take turns, so that other work on the machine disturbs all of them alike.

    Args:
      subject: provides the batch.
      step: the model; its `steps_per_execution` is the same afterwards.
      step_s: duration of a step.
      seconds: duration of all rounds of each; numbers of steps that would take much longer are left
        out.

    Returns:
      Steps per call to images per second, the median of the rounds; empty if steps are so long that
      the overhead of a call cannot matter.
    """
    if step_s > _LONGEST_S:
        return {}
    model = step.model
    batch = subject.read_batches(subject.measured).take(1).map(step.make_input).cache().repeat()
    before, settings = model.steps_per_execution, {}
    seconds /= _ROUNDS
    present = count_present_steps(subject, step)
    for count in sorted({*_COUNTS, present}):
        calls = max(2, round(seconds / (step_s * count)))
        if count in (1, present) or calls * count * step_s <= 4 * seconds:
            size = subject.feeding.batch_size
            settings[count] = _time_calls(model, batch, count, calls, size)
    rounds = [{count: measure() for count, measure in settings.items()} for _ in range(_ROUNDS)]
    model.steps_per_execution = before
    model.train_function = None
    return {count: statistics.median(each[count] for each in rounds) for count in settings}


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
