"""Objects named by dotted paths: how a configuration names a user's own function."""

import importlib
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import pydantic

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error, suggest
from image_pipeline.components.named_modules import admit, find_module


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
        public = (key for key in vars(module) if not key.startswith("_"))
        hint = suggest(name, public, most=3).replace("did", "Did", 1)
        raise AttributeError(
            f"module {module_name!r} has no {name!r}, which {dotted_path!r} names; "
            f"define it there or correct the path. {hint}".rstrip()
        )
    return getattr(module, name)


def load_named(option: str, dotted_path: str) -> Any:
    """As `load_object`, for a path that a user set.

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


class Named:
    """A function that a user named, to be pickled: by its path, and not by its module's name alone.

    So a worker looks for the module where it was found here, see `named_modules.admit`.
    """

    def __init__(self, option: str, dotted_path: str, function: Callable[..., Any]):
        """As `load_named` takes and gives them."""
        self.function, self._named = function, (option, dotted_path)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return _load_again, self._named


def _load_again(option: str, dotted_path: str) -> Named:
    return Named(option, dotted_path, load_named(option, dotted_path))


def _import_module(module_name: str, dotted_path: str) -> Any:
    """Imports the module; explains a missing one, but lets a missing import inside it through."""
    admit(module_name)
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
