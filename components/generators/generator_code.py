"""Sends a user's function to a worker: its code, not the name of the module that it is in.

So it may be a script's, a notebook's or a local one, and the worker does not import all that the
module imports: TensorFlow alone takes five seconds and 400 MB.
"""

import contextlib
import functools
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle


def send_function(function: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    """What gives the function in another process, with the values that its module has now.

    Where these cannot be sent, and for installed packages, its module is imported there.

    Raises:
      Exception: whatever is raised by what the function holds, if it cannot be sent either way.
    """
    with _by_value(_module_of(function)), contextlib.suppress(Exception):
        return functools.partial(pickle.loads, cloudpickle.dumps(function, 5))
    return functools.partial(pickle.loads, cloudpickle.dumps(function, 5))


def _module_of(function: Any) -> types.ModuleType | None:
    """The module that the user wrote it in; None for an installed package's."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__module__", None) or type(function).__module__
    module = sys.modules.get(name)
    path = getattr(module, "__file__", None) or ""
    is_own = path.endswith(".py") and "site-packages" not in path and name != "__main__"
    return module if is_own and not path.startswith(sys.base_prefix) else None


@contextlib.contextmanager
def _by_value(module: types.ModuleType | None) -> Iterator[None]:
    if module is None or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
