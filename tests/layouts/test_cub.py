"""CUB-200's lists of images, classes, splits and boxes."""

import pytest

from image_pipeline.components.errors import UserError
from tests.layouts.drawn import boxes_of, draw_images, labels_of, splits_of, understand

pytestmark = pytest.mark.beam
NAMES = [f"{1 + n % 2:03}.bird {n % 2}/{n}.png" for n in range(4)]


def write_lists(folder, **lists):
    lists = {
        "images": [f"{n + 1} {name}" for n, name in enumerate(NAMES)],
        "image_class_labels": [f"{n + 1} {1 + n % 2}" for n in range(4)],
        "classes": ["1 001.bird 0", "2 002.bird 1"],
        "train_test_split": ["1 1", "2 0", "3 1", "4 1"],
        "bounding_boxes": [f"{n + 1} {n}.0 2.5 10.0 20.0" for n in range(4)],
    } | lists
    draw_images(folder / "images", NAMES)
    for name, lines in lists.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_classes_and_splits_of_lists(tmp_path):
    listing = understand(write_lists(tmp_path))
    assert labels_of(listing) == {
        f"images/{name}": f"{1 + n % 2:03}.bird {n % 2}" for n, name in enumerate(NAMES)
    }
    assert list(splits_of(listing).values()) == ["train", "eval", "train", "train"]
    assert listing.options.understood[0] == (
        "CUB-200's lists: classes of image_class_labels.txt; splits: test 1, train 3; "
        "ingest.columns={boxes: boxes} takes bounding_boxes.txt"
    )


def test_boxes_of_lists_that_are_asked_for(tmp_path):
    listing = understand(write_lists(tmp_path), columns={"boxes": "boxes"})
    assert boxes_of(listing)[f"images/{NAMES[3]}"] == [("002.bird 1", 3, 2.5, 10, 20)]
    assert listing.options.boxes.format == "xywh"


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"image_class_labels": ["1 1", "2 2", "4 1"]}, "'3': image_class_labels.txt says nothing"),
        ({"classes": ["1 a"]}, "the image '2': classes.txt says nothing of '2'"),
        ({"train_test_split": ["1 1", "2 0", "3 x", "4 1"]}, "says 'x' of it, where it must say 1"),
    ],
)
def test_an_image_that_lists_do_not_fit_is_one_row_that_says_so(tmp_path, lists, message):
    listing = understand(write_lists(tmp_path, **lists), max_bad_fraction=1)
    assert message in next(ref.message for ref in listing.refs() if ref.problem)


@pytest.mark.parametrize(
    ("lines", "message"),
    [(["1 a.png", "2"], "images.txt says nothing of '2'"), (["1 a.png"] * 2, "number '1' twice")],
)
def test_lists_that_are_none_are_refused(tmp_path, lines, message):
    with pytest.raises(UserError, match=message):
        understand(write_lists(tmp_path, images=lines))
