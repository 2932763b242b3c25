"""Beam works out again for each transform what never changes; in tests, once.

Which arguments each method of each DoFn has, and what an engine's flags mean, is a third of the
CPU of a job over a few images. Processes that tests start have Beam as it is.
"""

import copy
import types
import weakref
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core

_list_arguments = core.get_function_args_defaults
_view_as = PipelineOptions.view_as
_ARGUMENTS: weakref.WeakKeyDictionary[Any, tuple[list[str], list[Any]]] = (
    weakref.WeakKeyDictionary()
)
_VIEWS: dict[tuple[type, tuple[str, ...]], PipelineOptions] = {}


def _list_arguments_once(function: Any) -> tuple[list[str], list[Any]]:
    """Of methods only, by their function."""
    if not isinstance(function, types.MethodType):
        return _list_arguments(function)
    if (found := _ARGUMENTS.get(function.__func__)) is None:
        found = _ARGUMENTS[function.__func__] = _list_arguments(function)
    names, defaults = found
    return [*names], [*defaults]


def _view_as_parsed(self: PipelineOptions, cls: type[PipelineOptions]) -> PipelineOptions:
    """As Beam does it, with what the flags mean to a class read once."""
    if self._flags is None:
        return _view_as(self, cls)
    key = (cls, tuple(self._flags))
    if key not in _VIEWS:
        _VIEWS[key] = cls(self._flags)
    view = cls.__new__(cls)
    view.__dict__.update(_VIEWS[key].__dict__, _flags=self._flags, _all_options=self._all_options)
    for name, value in vars(_VIEWS[key]._visible_options).items():
        if name not in self._all_options:
            self._all_options[name] = copy.deepcopy(value)
    return view


def remember() -> None:
    """Has Beam in this process work it out once, from now on."""
    core.get_function_args_defaults = _list_arguments_once
    PipelineOptions.view_as = _view_as_parsed
