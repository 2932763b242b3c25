"""Python functions inside data sets, which let the process end while a data set is being read.

TensorFlow destroys a data set's iterator when the interpreter ends, and waits for the functions
that it has called; these wait for the interpreter, which no longer lets other threads run: the
process would hang forever. So its end waits here until no call is in progress. That takes as long
as filling the data set's buffers, after which nothing is called.
"""

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from image_pipeline.components.errors import UserError

# How long no function must have been called, and the longest wait for that.
_QUIET_S = 0.2
_PATIENCE_S = 30.0


class _Calls:
    """Counts the calls in progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._last_s = -_QUIET_S

    @contextlib.contextmanager
    def count_one(self) -> Iterator[None]:
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._last_s = time.monotonic()

    def wait_for_quiet(self) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline_s:
            with self._lock:
                if not self._running and time.monotonic() - self._last_s >= _QUIET_S:
                    return
            time.sleep(0.01)


_CALLS = _Calls()
_AFTERWARDS: list[Callable[[], None]] = []


def _end() -> None:
    _CALLS.wait_for_quiet()
    for function in _AFTERWARDS:
        function()


atexit.register(_end)


def when_quiet(function: Callable[[], None]) -> None:
    """Has a function called at the end of the process: what it stops, no call needs any more."""
    _AFTERWARDS.append(function)


def count_call() -> contextlib.AbstractContextManager[None]:
    """Counts a call that a data set makes by another way than `call_python`, while it runs."""
    return _CALLS.count_one()


# Converted by AutoGraph, as what a data set calls is, the functions here would be slower, and their
# tracebacks longer.
@tf.autograph.experimental.do_not_convert
def call_python(
    function: Callable[..., Any], inputs: Sequence[Any], dtypes: Sequence[tf.DType]
) -> list[tf.Tensor]:
    """Calls a function of NumPy arrays in a graph, as `tf.numpy_function` does.

    Args:
      function: a pure function, from arrays to a sequence of arrays.
      inputs: its arguments.
      dtypes: of its results.

    Returns:
      The results, of unknown shape.
    """

    def counted(*arrays: Any) -> Any:
        with _CALLS.count_one():
            try:
                return function(*arrays)
            except UserError as error:  # TensorFlow quotes the traceback; the message says it all.
                raise error.with_traceback(None) from None

    results = tf.numpy_function(
        _free_with_data_set(counted), list(inputs), list(dtypes), stateful=False
    )
    return (
        results if isinstance(results, list) else [results]
    )  # Eagerly, a single result is not in a list.


def _free_with_data_set(function: Callable[..., Any]) -> Callable[..., Any]:
    """Binds the lifetime of a function, and of all that it holds, to the data set's.

    TensorFlow keeps functions as long as the outermost graph, which lives as long as the process.
    So it gets a weak reference, and the data set's own graph the strong one.
    """
    graph = tf.compat.v1.get_default_graph()
    if not hasattr(graph, "outer_graph"):  # Called at once, not in a data set.
        return function
    while hasattr(graph.outer_graph, "outer_graph"):
        graph = graph.outer_graph
    graph._held_functions = [*getattr(graph, "_held_functions", []), function]
    find = weakref.ref(function)

    def call(*arrays: Any) -> Any:
        held = find()
        assert held is not None  # An iterator keeps its data set.
        return held(*arrays)

    return call
