import pytest

from image_pipeline.components.dataset.manifest import Books, Manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.pixel_types import check_data_set
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
    check_data_set(manifest(**prepare), ViewOptions(**view), "data")


@pytest.mark.parametrize(
    ("prepare", "view", "message"),
    [
        (
            *({"dtype": "uint16"}, {}),
            "the images of 'data' are stored as uint16, which is read as float32, but "
            "view.dtype=uint8; set view.dtype=float32.",
        ),
        ({}, {"dtype": "float32"}, "are stored as uint8, which is read as uint8, but view.dtype=f"),
        ({}, {"channels": 4}, "the images of 'data' are gray or RGB, but view.channels=4; set it"),
        ({"channels": 4}, {}, "the images of 'data' have 4 channels, but view.channels=3; set vi"),
        ({"channels": 1}, {}, "the images of 'data' have 1 channels, but view.channels=3"),
    ],
)
def test_what_a_view_does_not_read_is_refused(prepare, view, message):
    with pytest.raises(UserError, match=message):
        check_data_set(manifest(**prepare), ViewOptions(**view), "data")
