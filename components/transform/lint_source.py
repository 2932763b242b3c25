"""Finds Python's and NumPy's randomness in the source of a `preprocessing_fn`."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from image_pipeline.components.errors import UserError

WAY_OUT = (
    "make random views in feeding (image_pipeline.components.augment), which draws them per record"
)
# Calls whose value is frozen at the time of tracing.
_FROZEN = re.compile(
    r"(numpy\.random|random|secrets)\..+|os\.urandom|uuid\.uuid[14]|time\.(time|time_ns|monotonic)"
    r"|datetime\.datetime\.(now|utcnow)"
)
_LOCAL = "<local>"
_GENERATOR = re.compile(r"(numpy\.random|random)\..+")  # a class's module and name


def check_source(function: Callable, name: str) -> None:
    """Refuses Python's and NumPy's randomness in a function and what it calls in its module.

    Args:
      function: the user's, unwrapped.
      name: its dotted path, for messages.

    Raises:
      UserError: if there is some; it names the call and the line.
    """
    function = inspect.unwrap(function)
    known = getattr(function, "__globals__", {})
    for mentioned, line in _mentions(function):
        top = mentioned.removeprefix(_LOCAL).partition(".")[0]
        if mentioned.startswith(_LOCAL) and _GENERATOR.fullmatch(_class_path(known.get(top))):
            raise UserError(_frozen(name, f"the random generator {top}", line))
        if _FROZEN.fullmatch(mentioned):
            raise UserError(_frozen(name, mentioned, line))


def _frozen(name: str, call: str, line: int) -> str:
    return (
        f"preprocessing_fn {name} uses {call} (line {line}): a preprocessing_fn is traced "
        f"once, so its value would be frozen; {WAY_OUT}."
    )


def _class_path(value: Any) -> str:
    """Where a value's class comes from; NumPy's generators say `numpy.random._generator`."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _mentions(function: Callable) -> Iterator[tuple[str, int]]:
    """Full dotted names in a function and in its module's functions that it uses, with lines.

    Names that the module does not import begin with `_LOCAL`.
    """
    module = _parse_module(function)
    if module is None:
        return
    aliases = _aliases(module)
    bodies = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    waiting, seen = [function.__name__], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in bodies:
            continue
        seen.add(name)
        own = set(_bound_names(bodies[name]))
        for node in ast.walk(bodies[name]):
            if isinstance(node, ast.Name | ast.Attribute) and (path := _dotted(node)):
                waiting.append(path)
                top, _, rest = path.partition(".")
                full = _LOCAL + top if top in own else aliases.get(top, _LOCAL + top)
                yield ".".join(filter(None, [full, rest])), node.lineno


def _bound_names(body: ast.FunctionDef) -> Iterator[str]:
    """The names of a function's arguments and of what it assigns to: they hide imports."""
    for node in ast.walk(body):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _parse_module(function: Callable) -> ast.Module | None:
    try:
        file = inspect.getsourcefile(function)
        with open(file or "", encoding="utf-8") as source:
            return ast.parse(source.read())
    except (OSError, TypeError, SyntaxError):
        return None


def _aliases(module: ast.Module) -> dict[str, str]:
    """Each imported name of a module, wherever it is imported, and what it stands for."""
    aliases = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                aliases[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            aliases |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
    return aliases


def _dotted(node: ast.AST) -> str:
    """`a.b.c` of nested attributes; nothing if they start from anything but a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""
