"""A trace of some training steps: for TensorBoard, and its slowest operations as a list."""

import collections
import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

# What the profiler appends to a name: "op#id=3,step=1#".
_ANNOTATION = re.compile(r"#.*$")
# How operations are named on the host: "name:Kind".
_HOST_OP = re.compile(r"[^:]+:[^: ]+")
_HOST = "/host:CPU"
_PS_A_MS = 1e9
_MOST_OPS = 12


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
    """Describes the latest trace of a folder.

    Args:
      folder: where it was recorded.
      steps: how many steps it holds.
    """
    latest = find_traces(folder)[0]
    size_bytes = tf.io.gfile.stat(latest).length
    return Profile(folder, size_bytes, steps, tuple(list_slowest_ops(latest, _MOST_OPS)))


def find_traces(folder: str) -> list[str]:
    """The trace files of a folder, or its URI, the latest of each machine first."""
    pattern = os.path.join(folder, "plugins/profile/*/*.xplane.pb")
    return sorted(tf.io.gfile.glob(pattern), reverse=True)


def list_slowest_ops(trace: str, count: int) -> list[OpTime]:
    """Lists the operations with the most own time, slowest first.

    Args:
      trace: path or URI of a trace file.
      count: how many operations at most.
    """
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
