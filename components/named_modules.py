"""Where modules that options name are found: among the installed ones, and in one folder."""

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Sequence

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
        self._named: set[str] = set()
        self._found: set[str] = set()  # Not those that are installed: they import what they like.

    def name(self, module_name: str) -> None:
        """Lets a module be found; an installed one of that name still comes first."""
        self._named.add(module_name.partition(".")[0])

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """As Python asks, of a top-level module; what is in a package is found by its own path."""
        if path is not None or not (name in self._named or _find_importer() in self._found):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, [self.folder], target)
        if spec is not None:
            self._found.add(name)
        return spec


def _find_importer() -> str:
    """The top-level module whose code is importing; empty if there is none."""
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and name.partition(".")[0] != "importlib":
            return name.partition(".")[0]
        frame = frame.f_back
    return ""


def find_module(module_name: str) -> importlib.machinery.ModuleSpec | None:
    """Finds a module that an option names; packages around it are imported.

    From then on it is also found by whoever imports it by name, as TFX and workers do.

    Returns:
      Where it is; None if there is none.

    Raises:
      ModuleNotFoundError: if a package around it is missing.
      ValueError: if the name is invalid.
    """
    admit(module_name)
    return importlib.util.find_spec(module_name)


def admit(module_name: str) -> None:
    """Lets a module that an option names be found in the folder of the user's modules, if any."""
    folder = os.environ.get(MODULES)
    if not folder:
        return
    finders = [each for each in sys.meta_path if isinstance(each, _NamedModules)]
    finder = next((each for each in finders if each.folder == folder), None)
    if finder is None:
        finder = _NamedModules(folder)
        sys.meta_path.append(finder)  # Last: it hides no installed package.
    finder.name(module_name)
