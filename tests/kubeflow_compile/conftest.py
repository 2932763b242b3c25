"""kubeflow/compile.py for tests: the folder is no package, so it is loaded by its path."""

import importlib.util
import pathlib
import types

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "kubeflow" / "compile.py"


@pytest.fixture(scope="session")
def script() -> types.ModuleType:
    """The module."""
    spec = importlib.util.spec_from_file_location("kubeflow_compile_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
