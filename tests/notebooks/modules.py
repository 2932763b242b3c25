"""The notebooks' own modules: a notebook imports them from its folder, and so do their tests."""

import importlib
import pathlib
import types

import pytest

NOTEBOOKS = pathlib.Path(__file__).parents[2] / "notebooks"


def load(name: str) -> types.ModuleType:
    """A module that stands beside the notebooks, by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(NOTEBOOKS)
        return importlib.import_module(name)
