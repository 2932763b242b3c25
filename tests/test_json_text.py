import ast
import dataclasses
import json
import pathlib

import numpy as np
import pytest

from image_pipeline.components.json_text import to_json

pytestmark = pytest.mark.unit

ROOT = pathlib.Path(__file__).parent.parent


def test_numbers_that_are_not_finite_become_null_wherever_they_are():
    value = {"a": float("nan"), "b": [1.5, (float("inf"), -float("inf"))], "c": {"d": np.nan}}
    assert json.loads(to_json(value)) == {"a": None, "b": [1.5, [None, None]], "c": {"d": None}}


@dataclasses.dataclass
class Figures:
    name: str
    values: tuple


def test_dataclasses_are_objects_of_their_fields_in_their_order():
    inner = Figures("b", (float("nan"), 2))
    assert to_json([Figures("a", (inner,))]) == (
        '[{"name": "a", "values": [{"name": "b", "values": [null, 2]}]}]'
    )


def test_all_else_is_as_the_standard_library_writes_it():
    value = {"ä": [1, 2.5, None, True, "x"], "b": {}}
    assert to_json(value) == json.dumps(value)
    assert to_json(value, indent=1, ensure_ascii=False) == json.dumps(
        value, indent=1, ensure_ascii=False
    )


# What a person or a program reads of a run goes through the one function.
WRITERS = [
    *sorted((ROOT / "pipeline" / "commands").glob("*.py")),
    ROOT / "components" / "training" / "history.py",
    ROOT / "components" / "training" / "trainer.py",
    ROOT / "components" / "training" / "profile.py",
    ROOT / "components" / "transform" / "analysis_file.py",
]


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.name)
def test_nothing_else_writes_what_people_read(path):
    calls = [
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    assert not {"json.dumps", "json.dump"} & set(calls)
