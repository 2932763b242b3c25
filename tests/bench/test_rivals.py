"""What runs in a rival's own environment imports nothing that is not there: not this project."""

import ast
import pathlib

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
# What the rivals of `registry.py` run, and what packs their files there.
FOREIGN = ("dali", "ffcv", "grain", "spdl", "streaming", "tfds", "torch", "webdataset", "litdata")

pytestmark = [pytest.mark.unit, pytest.mark.wide]


def find_imports(module):
    """The names of all that a file imports, at its top or in a function, and those files import."""
    found, waiting = set(), {module}
    while waiting:
        path = BENCHMARKS.joinpath(*waiting.pop().split(".")).with_suffix(".py")
        for node in ast.walk(ast.parse(path.read_text())) if path.exists() else ():
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            waiting |= set(names) - found
            found |= set(names)
    return found


@pytest.mark.parametrize("name", FOREIGN)
def test_a_rivals_reader_does_without_this_project(name):
    imports = find_imports(f"rivals.{name}_reader")
    assert "rivals.protocol" in imports
    assert not {each for each in imports if each.startswith("image_pipeline")}


@pytest.mark.parametrize("name", ["pack", "ffcv_write"])
def test_what_packs_its_files_does_so_too(name):
    imports = find_imports(f"rivals.{name}")
    assert not {each for each in imports if each.startswith("image_pipeline")}


def test_the_bare_loop_has_it():
    assert "image_pipeline.components.views.jpeg_tiles" in find_imports("rivals.bare_loop")
