import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from image_pipeline.components.training.profile import (
    OpTime,
    find_traces,
    list_slowest_ops,
    record_trace,
)

pytestmark = pytest.mark.unit


def add_plane(space, name, *lines):
    """Lines of events (name, start in ms, duration in ms)."""
    plane = space.planes.add(name=name)
    for events in lines:
        line = plane.lines.add()
        for text, start_ms, duration_ms in events:
            number = len(plane.event_metadata) + 1
            plane.event_metadata[number].name = text
            line.events.add(
                metadata_id=number,
                offset_ps=int(start_ms * 1e9),
                duration_ps=int(duration_ms * 1e9),
            )


@pytest.fixture
def trace(tmp_path):
    space = xplane_pb2.XSpace()
    # While runs 10 ms, 7 of them its Conv2D, of which 1 an Add.
    first = [("Executor::Process", 0, 20), ("while:While#id=1#", 0, 10)]
    first += [("conv:_MklNativeConv2D#id=2#", 1, 7), ("add:Add", 2, 1)]
    second = [("conv:_MklNativeConv2D", 0, 4), ("add:Add", 4, 2), ("waiting", 6, 90)]
    second += [("EagerLocalExecute: __inference_step", 0, 20)]
    add_plane(space, "/host:CPU", first, second)
    add_plane(space, "/device:GPU:0", [("gemm::kernel", 0, 5)])
    add_plane(space, "/host:metadata", [("none:None", 0, 50)])
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space.SerializeToString())
    return str(path)


def test_operations_are_listed_by_time_of_their_own(trace):
    assert list_slowest_ops(trace, 10) == [
        OpTime("conv", "Conv2D", "/host:CPU", 2, 10.0),
        OpTime("gemm::kernel", "", "/device:GPU:0", 1, 5.0),
        OpTime("while", "While", "/host:CPU", 1, 3.0),
        OpTime("add", "Add", "/host:CPU", 2, 3.0),
    ]
    assert [op.name for op in list_slowest_ops(trace, 1)] == ["conv"]


def test_a_trace_holds_what_ran_while_it_was_recorded(tmp_path):
    work = tf.function(lambda matrix: tf.linalg.matmul(matrix, matrix, name="traced"))
    other = tf.function(lambda matrix: tf.linalg.inv(matrix, name="not_traced"))
    matrix = tf.eye(50) * 2.0
    work(matrix), other(matrix)
    folder = str(tmp_path / "new/profile")
    with record_trace(folder):
        for _ in range(3):
            work(matrix)
    (trace,) = find_traces(folder)
    calls = {op.name: op.calls for op in list_slowest_ops(trace, 100)}
    assert calls["traced"] == 3
    assert "not_traced" not in calls
