import pathlib
import re

import pytest

from image_pipeline.components.images.bad_image import REASONS as OF_IMAGES
from image_pipeline.components.images.prepare import PreparedImage
from image_pipeline.show.plain_words import (
    NOTES,
    REASONS,
    explain_key,
    explain_note,
    explain_reason,
)

pytestmark = pytest.mark.unit


def test_every_note_and_every_reason_of_an_image_has_words():
    source = pathlib.Path("components/images/prepare.py").read_text()
    told = source.partition("class PreparedImage")[2].partition("def prepare_image")[0]
    told = told.partition("notes: tuple")[2]
    noted = {name.partition(":")[0] for name in re.findall(r"`([a-z0-9_:<>]+)`", told)}
    assert noted - {"duration_s", "gray", "color"} <= NOTES.keys()
    assert {*OF_IMAGES} <= REASONS.keys() and PreparedImage


def test_every_reason_that_code_gives_has_words():
    code = "".join(path.read_text() for path in sorted(pathlib.Path("components").rglob("*.py")))
    given = set(re.findall(r'(?:BadImage|_bad_row)\("([a-z_]+)"', code))
    assert {"no_label", "wrong_type", "vanished"} <= given <= REASONS.keys()


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
