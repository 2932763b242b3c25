"""Which test files are quick: with unit tests, and without imports that take seconds."""

import ast
import functools
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
# The folder of each package that is followed.
_FOLDERS = {
    "image_pipeline.components": ROOT / "components",
    "image_pipeline": ROOT / "pipeline",
    "tests": ROOT / "tests",
}
_SLOW = {
    *("apache_beam", "keras", "kfp", "ml_metadata", "tensorflow", "tensorflow_data_validation"),
    *("tensorflow_model_analysis", "tensorflow_transform", "tfx", "tfx_bsl"),
}


def is_quick(path: pathlib.Path) -> bool:
    """Whether what is to be collected has plain functions only, to be imported in no time.

    Of a folder its `conftest.py` decides.
    """
    if path.is_dir():
        shared = path / "conftest.py"
        return not (shared.exists() and imports_slowly(shared, set()))
    has_units = path.suffix == ".py" and "pytest.mark.unit" in path.read_text()
    return has_units and not imports_slowly(path, set())


def imports_slowly(path: pathlib.Path, seen: set[pathlib.Path]) -> bool:
    """Whether importing a file imports a slow library, itself or by what it imports."""
    seen.add(path)
    names = list_imports(path)
    found = {file for name in names if (file := find_file(name)) and file not in seen}
    return any(name.partition(".")[0] in _SLOW for name in names) or any(
        imports_slowly(file, seen) for file in sorted(found) if file not in seen
    )


@functools.cache
def list_imports(path: pathlib.Path) -> tuple[str, ...]:
    """What a file imports when it is imported itself: not what its functions do."""
    return tuple(_walk(ast.parse(path.read_text())))


def _walk(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield str(node.module)
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for child in ast.iter_child_nodes(node):
            yield from _walk(child)


def find_file(name: str) -> pathlib.Path | None:
    """The file of a module of this project."""
    for package, folder in _FOLDERS.items():
        if name.startswith(f"{package}."):
            path = folder.joinpath(*name.removeprefix(f"{package}.").split("."))
            found = (path.with_suffix(".py"), path / "__init__.py")
            return next((file for file in found if file.is_file()), None)
    return None
