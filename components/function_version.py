"""Hashes of the project's own code, and of a user's function, for TFX's cache.

TFX reuses an output if parameters and inputs are the same; it does not see that an executor's
code, or code behind a dotted path, has changed. So each component carries them as a parameter.
"""

import hashlib
import importlib.util
import pathlib
import re
import symtable
from collections.abc import Set

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error, show, suggest
from image_pipeline.components.named_modules import find_module

SOURCES = ("archives", "arrays", "generators", "record_files", "sources", "tables")
"""Where images come from."""
_OTHERS = (
    *("augment", "beam", "dataset", "evaluation", "feeding", "images", "inference"),
    *("ingest", "labels", "meaning", "models", "order", "served", "stores", "tasks", "training"),
    *("transform", "views"),
)
ROOMS = tuple(sorted((*SOURCES, *_OTHERS)))
# What every room imports.
_SHARED = ("beam", "dataset", "labels", "stores", "views")


def code_version(*rooms: str) -> str:
    """Hashes the source of some rooms and of what all share: 16 hexadecimal digits."""
    here = pathlib.Path(__file__).parent
    folders = [here, *(here / room for room in {*_SHARED, *rooms})]
    sources = [path for folder in folders for path in folder.glob("*.py")]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


_STAR = re.compile(r"^\s*from\s[^#\n]*\simport\s*\*", re.MULTILINE)


def function_version(dotted_path: str) -> str:
    """Hashes the source file that a dotted path's module is in; modules it imports are not seen.

    The module is not imported, but the packages around it are.

    Returns:
      16 hexadecimal digits.

    Raises:
      UserError: if there is no such file, or nothing of that name in it.
    """
    is_text = isinstance(dotted_path, str)
    path = _find_file(dotted_path) if is_text else None
    if path is None:
        way_out = (
            "of which no module's file is found; correct it, or make the module importable: start "
            "in its folder, install its package, or set PYTHONPATH"
            if is_text
            else "which is not text; give the name of its module, a dot, and its own name"
        )
        raise UserError(
            "function_version takes the dotted path of a function in a file, such as "
            f"'my_trainer.run_fn', got {show(dotted_path)}, {way_out}."
        )
    name = dotted_path.rpartition(".")[2]
    known = _list_names(path)
    if known is not None and name not in known:
        raise UserError(
            f"{str(path)!r} defines no {name!r}, which {dotted_path!r} names; define it there or "
            f"correct the path. {suggest(name, known).replace('did', 'Did', 1)}".rstrip()
        )
    return _hash(path)


def source_version(dotted_path: str) -> str:
    """The same for a path that an option names; zeros without a file, as whoever loads it tells."""
    path = _find_file(dotted_path)
    return "0" * 16 if path is None else _hash(path)


def images_version(images: str) -> str:
    """The same of the function that is given as images, as `rows:MODULE:FUNCTION`; else ""."""
    if not images.startswith(files.CODE_PREFIXES):
        return ""
    module, function = [*images.split(":"), ""][1:3]
    return source_version(f"{module}.{function}")


def _hash(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _find_file(dotted_path: str) -> pathlib.Path | None:
    try:
        spec = find_module(dotted_path.rpartition(".")[0])
    except (ImportError, ValueError):
        return None
    return pathlib.Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _list_names(path: pathlib.Path) -> Set[str] | None:
    """The names that a module defines; None if only importing it tells."""
    if path.suffix != ".py":
        return None
    try:
        source = importlib.util.decode_source(path.read_bytes())
        table = symtable.symtable(source, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{str(path)!r} is not valid Python: {describe_error(error)}.") from error
    found = (each for each in table.get_symbols() if each.is_assigned() or each.is_imported())
    names = {each.get_name() for each in found}
    return None if "__getattr__" in names or _STAR.search(source) else names
