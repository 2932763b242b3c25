"""What Beam asks again at every step of a job is answered once.

For each of a job's hundreds of steps Beam parses the flags some ten times, and inspects the methods
of its function as often: a third of a small job's CPU.
"""

import contextlib
import threading
import types
from collections.abc import Callable
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core


class _Replaced:
    """Beam's two functions are replaced from the first job's begin to the last one's end.

    Jobs of several threads overlap: were each to put back what it found, ours would stay.
    """

    def __init__(self) -> None:
        self._lock, self._jobs, self._own = threading.Lock(), 0, (None, None)

    def __enter__(self) -> None:
        with self._lock:
            self._jobs += 1
            if self._jobs == 1:
                inspect, view_as = self._own = core.get_signature, PipelineOptions.view_as
                core.get_signature = _keep_signatures(inspect)
                PipelineOptions.view_as = _keep_views(view_as)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._jobs -= 1
            if self._jobs == 0:
                core.get_signature, PipelineOptions.view_as = self._own


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
