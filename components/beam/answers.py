"""What Beam asks again at every step of a job is answered once, and no step waits for its sampler.

For each of a job's hundreds of steps Beam parses the flags some ten times, inspects the methods of
its function as often, and looks through all of them for state and timers: half of a small job's
CPU. A thread that looks which step is at work every 200 ms is waited for at a stage's end.
"""

import contextlib
import threading
import types
from collections.abc import Callable
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.transforms import core, userstate

# A look costs microseconds, without the interpreter's lock.
_LOOK_EVERY_MS = 10


class _Replaced:
    """Beam's own functions are replaced from the first job's begin to the last one's end.

    Jobs of several threads overlap: were each to put back what it found, ours would stay.
    """

    def __init__(self) -> None:
        self._lock, self._jobs, self._own = threading.Lock(), 0, ()

    def __enter__(self) -> None:
        with self._lock:
            self._jobs += 1
            if self._jobs == 1:
                self._own = tuple(getattr(*place) for place in _REPLACEMENTS)
                for place, own in zip(_REPLACEMENTS, self._own, strict=True):
                    setattr(*place, _REPLACEMENTS[place](own))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._jobs -= 1
            if self._jobs == 0:
                for place, own in zip(_REPLACEMENTS, self._own, strict=True):
                    setattr(*place, own)


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


_REPLACEMENTS: dict[tuple[Any, str], Callable[[Any], Any]] = {
    (core, "get_signature"): _keep_signatures,
    (PipelineOptions, "view_as"): _keep_views,
    (userstate, "get_dofn_specs"): _keep_specs,
    # The default of a sampler's only optional argument, its period.
    (StateSampler.__init__, "__defaults__"): lambda _: (_LOOK_EVERY_MS,),
}
