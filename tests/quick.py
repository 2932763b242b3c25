"""Which test files can do without large libraries: those of `make quick`, and those of the core."""

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
# What the core does without, and what takes seconds to import.
_OF_TFX = {
    *("kfp", "kubernetes", "ml_metadata", "tensorflow_data_validation"),
    *("tensorflow_model_analysis", "tfx"),
}
_SLOW = {*_OF_TFX, "apache_beam", "keras", "tensorflow", "tensorflow_transform", "tfx_bsl"}


def is_quick(path: pathlib.Path) -> bool:
    """Whether what is to be collected has plain functions only, to be imported in no time.

    Of a folder its `conftest.py` decides.
    """
    if path.is_dir():
        shared = path / "conftest.py"
        return not (shared.exists() and imports_any(_SLOW, shared, set()))
    has_units = path.suffix == ".py" and "pytest.mark.unit" in path.read_text()
    return has_units and not imports_any(_SLOW, path, set())


def needs_tfx(path: pathlib.Path) -> bool:
    """Whether a test file, or the `conftest.py` of a folder, imports what the core does without."""
    file = path / "conftest.py" if path.is_dir() else path
    return file.suffix == ".py" and file.exists() and imports_any(_OF_TFX, file, set())


def imports_any(libraries: set[str], path: pathlib.Path, seen: set[pathlib.Path]) -> bool:
    """Whether importing a file imports one of the libraries, itself or by what it imports."""
    seen.add(path)
    names = list_imports(path)
    found = {file for name in names if (file := find_file(name)) and file not in seen}
    return any(name.partition(".")[0] in libraries for name in names) or any(
        imports_any(libraries, file, seen) for file in sorted(found) if file not in seen
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
