"""What Beam asks again at every step of a job is answered once, and no step waits for its sampler.

For each of a job's hundreds of steps Beam parses the flags some ten times, inspects the methods of
its function as often, and looks through all of them for state and timers: over a third of a small
job's CPU. The thread that looks every 200 ms which step is at work is waited for at a stage's end.
"""

import contextlib
import threading
import types
from collections.abc import Callable
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker import statesampler
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.transforms import core, userstate

# A look costs microseconds, without the interpreter's lock.
_LOOK_EVERY_MS = 10


class _QuickSampler(StateSampler):
    """Beam's sampler, which ends within 10 ms, not 200."""

    def __init__(self, prefix: str, counter_factory: Any, period_ms: int = _LOOK_EVERY_MS):
        super().__init__(prefix, counter_factory, period_ms)


def _take_own() -> tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[..., Any]]:
    return core.get_signature, userstate.get_dofn_specs, PipelineOptions.view_as


class _Replaced:
    """Beam's own functions are replaced from the first job's begin to the last one's end.

    Jobs of several threads overlap: were each to put back what it found, ours would stay.
    """

    def __init__(self) -> None:
        self._lock, self._jobs = threading.Lock(), 0
        self._own = _take_own()

    def __enter__(self) -> None:
        with self._lock:
            self._jobs += 1
            if self._jobs == 1:
                inspect, find, view_as = self._own = _take_own()
                core.get_signature = _keep_signatures(inspect)
                userstate.get_dofn_specs = _keep_specs(find)
                PipelineOptions.view_as = _keep_views(view_as)
                statesampler.StateSampler = _QuickSampler

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._jobs -= 1
            if self._jobs == 0:
                core.get_signature, userstate.get_dofn_specs, PipelineOptions.view_as = self._own
                statesampler.StateSampler = StateSampler


_REPLACED = _Replaced()


def answer_once() -> contextlib.AbstractContextManager[None]:
    """Keeps both answers for as long as the block runs, or one that overlaps it."""
    return _REPLACED


def _keep_signatures(inspect: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of methods, whichever object they are bound to."""
    kept: dict[types.FunctionType, Any] = {}

    def answer(function: Any) -> Any:
        of_class = getattr(function, "__func__", None)
        if not (isinstance(function, types.MethodType) and type(of_class) is types.FunctionType):
            return inspect(function)
        if of_class not in kept:
            kept[of_class] = inspect(function)
        return kept[of_class]

    return answer


def _keep_views(view_as: Callable[..., Any]) -> Callable[..., Any]:
    """A view shows later changes, too: it shares its values with the options."""
    kept: dict[tuple[int, type], tuple[PipelineOptions, Any]] = {}

    def answer(options: PipelineOptions, kind: type) -> Any:
        key = id(options), kind
        if key not in kept:  # The options are kept as well, so that no others get their id.
            kept[key] = options, view_as(options, kind)
        return kept[key][1]

    return answer


def _keep_specs(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The state and timers of each step's function."""
    kept: dict[int, tuple[Any, Any]] = {}

    def answer(dofn: Any) -> Any:
        if id(dofn) not in kept:  # It is kept as well, so that no other one gets its id.
            kept[id(dofn)] = dofn, find(dofn)
        return kept[id(dofn)][1]

    return answer
