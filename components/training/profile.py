"""Where the time of training's steps goes: a trace of some, and how long a few take beforehand.

The trace is left where TensorBoard looks for it. Its slowest operations are also listed.
"""

import collections
import contextlib
import dataclasses
import logging
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from image_pipeline.components import files
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.names import BACKBONES
from image_pipeline.components.models.options import FineTuning, TrainingOptions
from image_pipeline.components.tasks.choose_task import TASK_OF
from image_pipeline.components.training.history import PROFILE_FILE
from image_pipeline.components.training.recipe import Phases
from image_pipeline.components.training.steps_per_execution import StepsCallback

# What the profiler appends to a name: "op#id=3,step=1#".
_ANNOTATION = re.compile(r"#.*$")
# How operations are named on the host: "name:Kind".
_HOST_OP = re.compile(r"[^:]+:[^: ]+")
_HOST = "/host:CPU"
_PS_A_MS = 1e9
_MOST_OPS = 12
# As many images a measured step as have so many pixels: with few small ones, calling the step would
# take more time than the step.
_PIXELS, _LEAST, _MOST = 2**17, 8, 32
_STEPS = 3
_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class OpTime:
    """The time of an operation in a trace.

    Attributes:
      name: of the operation; on an accelerator, of its kernel.
      kind: such as "Conv2D"; "" for a kernel.
      where: the device, such as "/host:CPU".
      calls: how often it ran.
      self_ms: its own time, without the operations that it called; over all threads.
    """

    name: str
    kind: str
    where: str
    calls: int
    self_ms: float


@dataclasses.dataclass(frozen=True)
class Profile:
    """What a trace holds.

    Attributes:
      folder: for TensorBoard's --logdir.
      size_bytes: size of the trace.
      steps: how many were traced.
      slowest: the operations that took most time, slowest first.
    """

    folder: str
    size_bytes: int
    steps: int
    slowest: tuple[OpTime, ...]


@contextlib.contextmanager
def record_trace(folder: str) -> Iterator[None]:
    """Traces TensorFlow while the block runs, into a folder for TensorBoard."""
    tf.io.gfile.makedirs(folder)
    tf.profiler.experimental.start(folder)
    try:
        yield
    finally:
        tf.profiler.experimental.stop()


def describe_trace(folder: str, steps: int) -> Profile:
    """Describes the latest trace of a folder."""
    latest = find_traces(folder)[0]
    size_bytes = tf.io.gfile.stat(latest).length
    return Profile(folder, size_bytes, steps, tuple(list_slowest_ops(latest, _MOST_OPS)))


def find_traces(folder: str) -> list[str]:
    """The trace files of a folder, or its URI, the latest of each machine first."""
    pattern = os.path.join(folder, "plugins/profile/*/*.xplane.pb")
    return sorted(tf.io.gfile.glob(pattern), reverse=True)


def list_slowest_ops(trace: str, count: int) -> list[OpTime]:
    """Lists the operations with the most own time, slowest first."""
    space = xplane_pb2.XSpace()
    with tf.io.gfile.GFile(trace, "rb") as file:
        space.ParseFromString(file.read())
    calls: collections.Counter[tuple[str, str]] = collections.Counter()
    self_ps: collections.Counter[tuple[str, str]] = collections.Counter()
    for plane in space.planes:
        for name, own_ps in _list_events(plane):
            calls[name, plane.name] += 1
            self_ps[name, plane.name] += own_ps
    slowest = self_ps.most_common(count)
    return [_as_op(name, where, calls[name, where], ps) for (name, where), ps in slowest]


def _as_op(name: str, where: str, calls: int, self_ps: int) -> OpTime:
    name, _, kind = name.partition(":") if where == _HOST else (name, "", "")
    return OpTime(name, kind.removeprefix("_MklNative"), where, calls, self_ps / _PS_A_MS)


def _list_events(plane: Any) -> Iterator[tuple[str, int]]:
    """The name and own picoseconds of each operation that ran on a device."""
    on_host = plane.name == _HOST
    if not on_host and not plane.name.startswith("/device:"):
        return
    names = {id_: _ANNOTATION.sub("", each.name) for id_, each in plane.event_metadata.items()}
    for line in plane.lines:
        for id_, own_ps in _list_own_times(line.events):
            name = names.get(id_, "")
            # The host's other events belong to the runtime, which calls operations or waits.
            if not on_host or _HOST_OP.fullmatch(name):
                yield name, own_ps


def _list_own_times(events: Any) -> Iterator[tuple[int, int]]:
    """Each event's kind, and its picoseconds without those of the events inside it."""
    ordered = sorted(events, key=lambda event: (event.offset_ps, -event.duration_ps))
    open_events: list[list[int]] = []  # [kind, end, own time], each inside the one before
    for event in ordered:
        while open_events and open_events[-1][1] <= event.offset_ps:
            kind, _, own_ps = open_events.pop()
            yield kind, own_ps
        if open_events:
            open_events[-1][2] -= event.duration_ps
        end_ps = event.offset_ps + event.duration_ps
        open_events.append([event.metadata_id, end_ps, event.duration_ps])
    for kind, _, own_ps in open_events:
        yield kind, own_ps


class StepProfile(StepsCallback):
    """Traces steps in the middle of the middle epoch, once everything is compiled.

    There are never more than the epoch has, since evaluation follows. With several steps per call
    of the model, whole calls are traced, from the one with the first of these steps.
    """

    def __init__(self, folder: str, steps: int, epoch: int, traces: contextlib.ExitStack):
        """Sets what to trace.

        Args:
          folder: where the trace goes.
          steps: how many to trace.
          epoch: number of the epoch.
          traces: ends a trace that an error leaves open.
        """
        super().__init__()
        self._folder, self._steps, self._epoch, self._traces = folder, steps, epoch, traces
        self._traced = 0
        self._is_due = self._is_open = self._has_begun = False

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Notes whether this is the epoch."""
        super().on_epoch_begin(epoch, logs)
        self._is_due = epoch == self._epoch

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Starts the trace at its first step, but not with the call that compiles."""
        middle = (self.params["steps"] - self._steps) // 2
        end = batch + self.model.steps_per_execution
        if self._is_due and self._has_begun and end > middle:
            self._is_due, self._is_open = False, True
            self._traces.enter_context(record_trace(self._folder))

    def on_steps(self, count: int) -> None:
        """Ends the trace after its last step."""
        self._has_begun = True
        if self._is_open:
            self._traced += count
            if self._traced >= self._steps or self._done == self.params["steps"]:
                self._traces.close()
                self._is_open = False

    def write_summary(self) -> None:
        """Writes a summary beside the trace, unless no step was left to trace."""
        if not self._traced:
            _LOG.warning("No step was left to trace: more epochs are needed, or shorter calls.")
            return
        profile = describe_trace(self._folder, self._traced)
        content = to_sealed_json(dataclasses.asdict(profile), indent=1) + "\n"
        files.write_file(files.join(self._folder, PROFILE_FILE), content.encode())


def plan_profile(
    folder: str, training: TrainingOptions, first_epoch: int, traces: contextlib.ExitStack
) -> list[StepProfile]:
    """The callback that traces steps in the middle of the remaining epochs, if asked for.

    Raises:
      UserError: if TensorFlow cannot write the trace to the folder.
    """
    if training.profile_steps is None:
        return []
    files.check_known_to_tensorflow(folder, "with training.profile_steps, the model's run")
    middle = (first_epoch + training.epochs) // 2
    return [StepProfile(folder, training.profile_steps, middle, traces)]


def measure_step(
    kind: str, classes: int, model_name: str, height_px: int, width_px: int, channels: int
) -> float:
    """Trains a network on black images; one of ImageNet's photos as `training.fine_tuning` does.

    Returns:
      Seconds for each image of the fastest step.
    """
    task = next(each for label, each in TASK_OF.items() if label.name == kind)
    shape = height_px, width_px, channels
    count = min(_MOST, max(_LEAST, _PIXELS // (height_px * width_px)))
    outputs = 1 if task.head == "value" else max(2, classes)
    build = find_builder(model_name, task.head)
    tuning = FineTuning(head_epochs=1) if model_name in BACKBONES else None
    training = TrainingOptions(model=model_name).model_copy(update={"fine_tuning": tuning})
    model = build(shape, outputs, training)
    Phases(model, training).enter(epoch=1)  # BatchNorm that learns takes half as much time again.
    images = tf.zeros([count, *shape])
    labels, _ = task.make_labels(model(images), False)
    model.train_on_batch(images, labels)  # traces
    seconds = []
    for _ in range(_STEPS):
        started = time.perf_counter()
        model.train_on_batch(images, labels)
        seconds.append(time.perf_counter() - started)
    keras.utils.clear_session()
    return min(seconds) / count
