"""Scripts of kubeflow/ for tests: not a package, so they are loaded by their paths."""

import importlib.util
import pathlib
import sys
import types

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "kubeflow" / "compile.py"


def load_script(name: str) -> types.ModuleType:
    """Loads `kubeflow/NAME.py`, which may import its neighbours, as when it is run."""
    path = SCRIPT.with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"kubeflow_{name}_script", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dataclasses look their module up.
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPT.parent))
    return module


@pytest.fixture(scope="session")
def script() -> types.ModuleType:
    """kubeflow/compile.py."""
    return load_script("compile")
