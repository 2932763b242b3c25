import pytest

from image_pipeline.components.dataset.manifest import Books, Manifest
from image_pipeline.components.errors import UserError
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


@pytest.mark.parametrize(
    ("prepare", "view", "message"),
    [
        (
            *({"dtype": "uint16"}, {}),
            "the images of 'data' are stored as uint16 .ingest.prepare.dtype., which is read as "
            "float32, but view.dtype=uint8; set view.dtype=float32.",
        ),
        (
            {},
            {"dtype": "float32"},
            "stored as uint8 .ingest.prepare.dtype., which is read as uint8",
        ),
        ({}, {"channels": 4}, "the images of 'data' are gray or RGB, but view.channels=4; set it"),
        (
            {"channels": 4},
            {},
            "'data' have 4 channels .ingest.prepare.channels., but view.channels=3; s",
        ),
        (
            {"channels": 1},
            {},
            "'data' have 1 channels .ingest.prepare.channels., but view.channels=3",
        ),
    ],
)
def test_what_a_view_does_not_read_is_refused(prepare, view, message):
    with pytest.raises(UserError, match=message):
        check_pixels({"data": manifest(**prepare)}, ViewOptions(**view))
