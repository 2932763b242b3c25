import ast
import dataclasses
import json
import os
import pathlib

import numpy as np
import pydantic
import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.json_text import to_json
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.options import parse_paths

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
    ROOT / "components" / "transform" / "finish.py",
]


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.name)
def test_nothing_else_writes_what_people_read(path):
    calls = [
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    assert not {"json.dumps", "json.dump"} & set(calls)


@pytest.mark.parametrize(
    ("content", "paths"),
    [
        (b"", ()),
        (b"b/2.png\na 1.png\n", ("a 1.png", "b/2.png")),
        (b"b\r\n\r\n\nb\na", ("a", "b")),
        (b"\xff.png\n" + "é.png".encode(), ("\\xff.png", "é.png")),
        (b" a \n", (" a ",)),
    ],
)
def test_a_line_is_a_path(content, paths):
    assert parse_paths(content) == paths


@pytest.mark.parametrize(
    "make",
    [
        lambda value: IngestOptions(leave_out=value).leave_out,
        lambda value: FeedingOptions(select={"leave_out": value}).select.leave_out,
    ],
)
def test_an_option_holds_the_paths_of_the_file_that_it_names(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "marks.txt").write_text("b.png\na.png\n")
    assert make("marks.txt") == make(os.path.join(tmp_path, "marks.txt")) == ("a.png", "b.png")
    assert make(["b.png", "a.png"]) == ("b.png", "a.png")
    with pytest.raises(pydantic.ValidationError, match=r"'gone.txt' cannot be read \(No such file"):
        make("gone.txt")
    with pytest.raises(pydantic.ValidationError, match="valid tuple"):
        make(7)


def test_options_that_are_passed_on_need_no_file(tmp_path):
    (tmp_path / "marks.txt").write_text("b.png\na.png\n")
    options = IngestOptions(leave_out=str(tmp_path / "marks.txt"))
    (tmp_path / "marks.txt").unlink()
    assert IngestOptions.model_validate_json(options.to_json()) == options
    assert IngestOptions.read_stored(options.stored_form()).leave_out == ("a.png", "b.png")
    assert "leave_out" not in IngestOptions().stored_form()
