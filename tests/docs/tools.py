"""The scripts of docs/tools, which are not a package, as modules."""

import importlib.util
import pathlib
import types

ROOT = pathlib.Path(__file__).parents[2]


def load_tool(name: str) -> types.ModuleType:
    """The script `docs/tools/<name>.py`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "tools" / f"{name}.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool
