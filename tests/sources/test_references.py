"""References as JSON: what the names of chunks depend on."""

import dataclasses
import json
import pickle

import pytest

import image_pipeline
from image_pipeline.components.labels.boxes import BoxAnnotation
from image_pipeline.components.sources.references import Annotations, ImageRef, list_fields
from image_pipeline.components.sources.rows import Location

pytestmark = pytest.mark.unit

BOXES = ([1, 2], [BoxAnnotation((0.0, 0.0, 2.0, 2.0), "a")])


@pytest.mark.parametrize(
    "ref",
    [
        ImageRef("a.jpg", 3, 4),
        ImageRef("a.jpg", 3, 4, "bad_row", "why", Annotations("t.csv:2", "cat", None, "train")),
        ImageRef(
            "a.jpg", 3, 4, annotations=Annotations("t.csv:2", further=(1, 0.5, "x", ["y"], BOXES))
        ),
        ImageRef("a", 3, 4, mask=ImageRef("b", 1, 2, location=Location("f", "array", 7, 1, "m"))),
    ],
)
def test_fields_are_those_of_astuple(ref):
    assert json.dumps(list_fields(ref)) == json.dumps(dataclasses.astuple(ref))


def test_former_names_mean_the_same_and_say_what_they_are_called_now():
    with pytest.warns(DeprecationWarning, match=r"image_pipeline.Said is called Annotations now"):
        former = image_pipeline.Said
    assert former is Annotations
    location = Location("a.tar", "bytes", 512, 3)
    with pytest.warns(DeprecationWarning, match=r"ImageRef\((said|place)=…\) is called"):
        ref = ImageRef("a.png", 3, 7, said=Annotations("t.csv:2"), place=location)
    now = ImageRef("a.png", 3, 7, annotations=Annotations("t.csv:2"), location=location)
    with pytest.warns(DeprecationWarning, match=r"ImageRef.said is called annotations now"):
        said = ref.said
    with pytest.warns(DeprecationWarning, match=r"ImageRef.place is called location now"):
        place = ref.place
    assert ref == now and said == now.annotations and place == now.location
    assert pickle.loads(pickle.dumps(ref)) == now
