import ast
import pathlib
import re

import pytest

from image_pipeline.components.images.bad_image import REASONS as OF_IMAGES
from image_pipeline.show.words import (
    NOTES,
    REASONS,
    explain_key,
    explain_note,
    explain_reason,
)

pytestmark = pytest.mark.unit


# Which argument of these names the reason.
_GIVES = {"BadImage": 0, "_bad_row": 0, "SkippedFile": 0, "ImageRef": 3}
_COMPONENTS = [ast.parse(path.read_text()) for path in pathlib.Path("components").rglob("*.py")]


def _find_constants():
    """The texts that modules of `components/` give names to."""
    for tree in _COMPONENTS:
        for node in (each for each in tree.body if isinstance(each, ast.Assign)):
            several = isinstance(node.targets[0], ast.Tuple)
            names = node.targets[0].elts if several else node.targets
            values = getattr(node.value, "elts", []) if several else [node.value]
            for name, value in zip(names, values, strict=False):
                if isinstance(name, ast.Name) and isinstance(getattr(value, "value", None), str):
                    yield name.id, value.value


def _find_reasons():
    """The reasons that code gives by a literal or by a name."""
    constants = dict(_find_constants())
    calls = (node for tree in _COMPONENTS for node in ast.walk(tree) if isinstance(node, ast.Call))
    for call in calls:
        at = _GIVES.get(getattr(call.func, "attr", getattr(call.func, "id", None)))
        reason = call.args[at] if at is not None and len(call.args) > at else None
        if isinstance(reason, ast.Constant) and reason.value is not None:
            yield reason.value
        elif isinstance(reason, ast.Name) and reason.id in constants:
            yield constants[reason.id]


def test_every_note_of_an_image_has_words():
    source = pathlib.Path("components/images/prepare.py").read_text()
    told = source.partition("class PreparedImage")[2].partition("def prepare_image")[0]
    told = told.partition("notes: tuple")[2]
    noted = {name.partition(":")[0] for name in re.findall(r"`([a-z0-9_:<>]+)`", told)}
    assert len(noted) > 20 and noted - {"duration_s"} <= NOTES.keys()


def test_every_reason_that_code_gives_has_words():
    given = set(_find_reasons())
    assert {"no_label", "wrong_type", "vanished", "mask_size", "outside", "left_out"} <= given
    assert given | {*OF_IMAGES} <= REASONS.keys()


@pytest.mark.parametrize(("head", "words"), [("note", NOTES), ("reason", REASONS)])
def test_the_page_lists_all_with_their_words_and_what_to_do(head, words):
    page = pathlib.Path("docs/damage.md").read_text()
    table = page.partition(f"| {head} | what it says |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert {row[0].strip("`"): row[1] for row in rows} == words
    assert all(len(row) == 4 and all(row) for row in rows)


def test_keys_are_said_in_words_even_if_they_are_not_known():
    assert explain_note("icc") == "colour profile, converted to sRGB"
    assert explain_note("some_day") == "some day"
    assert explain_reason("truncated") == "Files that end too early"
    assert explain_reason("some_day") == "Some day"
    keys = ("icc", "truncated", "left_out")
    assert [explain_key(key) for key in keys] == [
        NOTES["icc"],
        REASONS["truncated"],
        "Left out by a list",
    ]
