import pytest

from image_pipeline.components.dataset.manifest import Books, Manifest
from image_pipeline.components.feeding.rules import check_pixels
from image_pipeline.components.views.options import ViewOptions

pytestmark = pytest.mark.unit


def manifest(**prepare) -> Manifest:
    books = Books(
        **dict.fromkeys(("found", "written", "duplicates", "quarantined", "conflicting_labels"), 0),
        quarantine_reasons={},
        classes={},
    )
    options = {"prepare": prepare}
    return Manifest(format_version=1, books=books, splits={}, files={}, options=options)


@pytest.mark.parametrize(
    ("prepare", "view"),
    [
        ({}, {}),
        ({}, {"channels": 1}),
        ({"channels": 4}, {"channels": 4}),
        ({"dtype": "uint16"}, {"dtype": "float32"}),
        ({"dtype": "float16", "channels": 2}, {"dtype": "float32", "channels": 2}),
    ],
)
def test_what_a_view_reads(prepare, view):
    check_pixels({"data": manifest(**prepare)}, ViewOptions(**view))
