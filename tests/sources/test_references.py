"""References as JSON: what the names of chunks depend on."""

import dataclasses
import json

import pytest

from image_pipeline.components.labels.boxes import SaidBox
from image_pipeline.components.sources.references import ImageRef, Said, list_fields
from image_pipeline.components.sources.rows import Place

pytestmark = pytest.mark.unit

BOXES = ([1, 2], [SaidBox((0.0, 0.0, 2.0, 2.0), "a")])


@pytest.mark.parametrize(
    "ref",
    [
        ImageRef("a.jpg", 3, 4),
        ImageRef("a.jpg", 3, 4, "bad_row", "why", Said("t.csv:2", "cat", None, "train")),
        ImageRef("a.jpg", 3, 4, said=Said("t.csv:2", further=(1, 0.5, "x", ["y"], BOXES))),
        ImageRef("a", 3, 4, mask=ImageRef("b", 1, 2, place=Place("f", "array", 7, 1, "m"))),
    ],
)
def test_fields_are_those_of_astuple(ref):
    assert json.dumps(list_fields(ref)) == json.dumps(dataclasses.astuple(ref))
