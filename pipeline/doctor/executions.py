"""What several steps in one call of the model bring: Keras's `steps_per_execution`."""

import dataclasses
import time
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
    """How many steps training makes in a call: by its option, or as the model was compiled."""
    return subject.training.steps_per_execution or step.model.steps_per_execution


def measure_executions(
    subject: Subject, step: ModelStep, step_s: float, seconds: float
) -> dict[str, list[float]]:
    """Trains on one batch again and again, with 1, 2, 4, 8 and as many steps a call as now.

    Args:
      subject: gives the batch.
      step: the model; its `steps_per_execution` is the same afterwards.
      step_s: what a step takes. Numbers of steps that would take much longer than `seconds` are
        left out: what a call costs beside its steps cannot matter then.
      seconds: for how long, each.

    Returns:
      Steps a call to images a second, in each round.
    """
    model = step.model
    batch = subject.read_batches(subject.measured).take(1).map(step.make_input).cache().repeat()
    before, settings = model.steps_per_execution, {}
    present = count_present_steps(subject, step)
    for count in sorted({*_COUNTS, present}):
        calls = max(2, round(seconds / (step_s * count)))
        if count in (1, present) or calls * count * step_s <= 4 * seconds:
            settings[str(count)] = _Calls(model, batch, count, calls, subject.feeding.batch_size)
    figures = race(settings)
    model.steps_per_execution = before
    model.train_function = None
    return figures


@dataclasses.dataclass
class _Calls:
    """So many calls of so many steps; measured in images a second."""

    model: Any
    batch: Any
    count: int
    calls: int
    batch_size: int
    compiled: Any = None

    def __call__(self) -> float:
        self.model.steps_per_execution = self.count
        self.model.train_function = self.compiled  # If None, Keras makes it, with this number.
        clock = _ExecutionClock()
        self.model.fit(
            self.batch,
            steps_per_epoch=(self.calls + 1) * self.count,
            epochs=1,
            shuffle=False,
            verbose=0,
            callbacks=[clock],
        )
        self.compiled = self.model.train_function
        return self.calls * self.count * self.batch_size / clock.wall_s
