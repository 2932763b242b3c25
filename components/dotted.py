"""Objects named by dotted paths: how a configuration names a user's own function."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import pydantic

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error, suggest

MODULES = "IMAGE_PIPELINE_MODULES"
"""The environment variable that names the folder of the user's own modules; workers inherit it."""


class _NamedModules(importlib.abc.MetaPathFinder):
    """Finds the modules of a folder that options name, and those that these import from it.

    On `sys.path` the folder would answer for any module that an installed library tries to import,
    and run what somebody has put there: data sets come as folders with files of all kinds.
    """

    def __init__(self, folder: str):
        """Finds nothing until a module is named."""
        self.folder = folder
        self._found: set[str] = set()

    def name(self, module_name: str) -> None:
        """Lets a module be found; an installed one of that name still comes first."""
        self._found.add(module_name.partition(".")[0])

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """As Python asks, of a top-level module; what is in a package is found by its own path."""
        if path is not None or not (name in self._found or _find_importer() in self._found):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, [self.folder], target)
        if spec is not None:
            self._found.add(name)
        return spec


def _find_importer() -> str:
    """The top-level module whose code is importing; empty if there is none."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "importlib":
        frame = frame.f_back
    return frame.f_globals.get("__name__", "").partition(".")[0]


def find_module(module_name: str) -> importlib.machinery.ModuleSpec | None:
    """Finds a module that an option names; packages around it are imported.

    From then on it is also found by whoever imports it by name, as TFX and workers do.

    Returns:
      Where it is; None if there is none.

    Raises:
      ModuleNotFoundError: if a package around it is missing.
      ValueError: if the name is none.
    """
    _admit(module_name)
    return importlib.util.find_spec(module_name)


def _admit(module_name: str) -> None:
    """Lets a module that an option names be found in the folder of the user's modules, if any."""
    folder = os.environ.get(MODULES)
    if not folder:
        return
    finders = [each for each in sys.meta_path if isinstance(each, _NamedModules)]
    finder = next((each for each in finders if each.folder == folder), None)
    if finder is None:
        sys.meta_path.append(
            finder := _NamedModules(folder)
        )  # Last: it hides no installed package.
    finder.name(module_name)


def follow_rename(dotted_path: str) -> str:
    """The present path for one from before both folders were imported as `image_pipeline`.

    A user's own package named `components` or `pipeline` is left alone.
    """
    old, _, _ = dotted_path.rpartition(".")
    top, _, rest = old.partition(".")
    if top not in ("components", "pipeline") or not rest:
        return dotted_path
    new = old if top == "components" else rest
    ours, theirs = _find_origin(f"image_pipeline.{new}"), _find_origin(old)
    if ours is None or theirs not in (None, ours):
        return dotted_path
    renamed = dotted_path.replace(old, f"image_pipeline.{new}", 1)
    warnings.warn(
        f"{dotted_path} is now called {renamed}; write that in the configuration.",
        FutureWarning,
        stacklevel=2,
    )
    return renamed


def _find_origin(module_name: str) -> str | None:
    """The file of a module; None if there is no such module."""
    try:
        spec = find_module(module_name)
    except ModuleNotFoundError:
        return None
    return None if spec is None else spec.origin


DottedPath = Annotated[str, pydantic.AfterValidator(follow_rename)]


def load_object(dotted_path: str) -> Any:
    """Imports the object that `package.module.name` names.

    Args:
      dotted_path: the module's dotted name, a dot, the object's name in it.

    Returns:
      The object.

    Raises:
      ValueError: if the path has no dot.
      ModuleNotFoundError: if there is no such module. Errors of the module's own imports pass
        through unchanged.
      AttributeError: if the module has no such name.
    """
    module_name, _, name = dotted_path.rpartition(".")
    if not module_name or not name:
        raise ValueError(
            f"a dotted path must be 'package.module.name', got {dotted_path!r}; "
            "put the module's name before the object's."
        )
    module = _import_module(module_name, dotted_path)
    if not hasattr(module, name):
        raise AttributeError(
            f"module {module_name!r} has no {name!r}, which {dotted_path!r} names; "
            f"define it there or correct the path. {_suggest_public(name, module)}".rstrip()
        )
    return getattr(module, name)


def load_named(option: str, dotted_path: str) -> Any:
    """As `load_object`, for a path that a user set.

    Args:
      option: name of the option that holds the path, for messages.
      dotted_path: the module's dotted name, a dot, the object's name in it.

    Raises:
      UserError: if it cannot be imported, for any reason.
    """
    try:
        return load_object(dotted_path)
    except (ValueError, ImportError, AttributeError) as error:
        raise UserError(f"{option} cannot be loaded: {error}") from error
    except Exception as error:  # The module is the user's own: it may raise anything.
        raise UserError(
            f"{option}={dotted_path} cannot be loaded; its module fails: {describe_error(error)}"
        ) from error


def _import_module(module_name: str, dotted_path: str) -> Any:
    """Imports the module; explains a missing one, but lets a missing import inside it through."""
    _admit(module_name)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ModuleNotFoundError(
            f"no module {error.name!r}, which {dotted_path!r} names; correct the path, or make "
            "the module importable: start in its folder, install its package, or set PYTHONPATH.",
            name=error.name,
        ) from error


def _suggest_public(name: str, module: Any) -> str:
    public = (key for key in vars(module) if not key.startswith("_"))
    return suggest(name, public, most=3).replace("did", "Did", 1)
