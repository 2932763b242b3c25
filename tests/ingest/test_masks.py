import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.masks import Masks, check_masks, find_masks
from image_pipeline.components.ingest.options import IngestOptions

pytestmark = pytest.mark.unit


def _find(paths):
    return find_masks(lambda: paths)


def _pairs(image, mask, count=10):
    return [each.format(n) for n in range(count) for each in (image, mask)]


@pytest.mark.parametrize(
    ("image", "mask", "image_dir"),
    [
        ("images/{}.jpg", "masks/{}.png", "images"),
        ("images/{}.png", "masks/{}.png", "images"),
        ("data/images/a/{}.jpg", "data/masks/a/{}.png", "data/images/a"),
        ("JPEGImages/{}.jpg", "SegmentationClass/{}.png", "JPEGImages"),
        ("scans/{}.jpg", "Ground_Truth/{}_L.png", "scans"),
        ("part1/{}.jpg", "part1_GroundTruth/{}_segmentation.png", "part1"),
        ("{}.jpg", "{}_mask.png", None),
        ("cat/{}.jpg", "cat/{}-seg.png", None),
        ("images/{}.jpg", "images/{}.MASK.png", None),
    ],
)
def test_masks_have_names_of_images(image, mask, image_dir):
    expected = Masks(10, mask.format(0), image.format(0), image_dir)
    assert _find(_pairs(image, mask)) == expected
    assert _find([*_pairs(image, mask), "readme.txt", "other/x.jpg"]) == expected


def test_of_many_scenes_no_single_folder_is_named():
    found = _find([p for n in "ab" for p in _pairs(f"{n}/images/{{}}.jpg", f"{n}/masks/{{}}.png")])
    assert (found.count, found.image_dir) == (20, None)


@pytest.mark.parametrize(
    "paths",
    [
        _pairs("face/f{}.jpg", "mask/m{}.jpg"),
        _pairs("face/{}.jpg", "mask/{}.jpg"),
        _pairs("with_mask/{}.jpg", "without_mask/{}.jpg"),
        _pairs("without_mask/{}.jpg", "with_mask/{}_mask.jpg"),
        _pairs("images/{}.jpg", "labels/{}.txt"),
        [f"faces/{n}_mask.jpg" for n in range(9)],
        [*_pairs("a/{}.jpg", "a/{}_mask.png", 1), *(f"mask/{n}.jpg" for n in range(30))],
        [],
    ],
    ids=["classes", "numbered classes", "two masks", "suffixed", "texts", "alone", "few", "none"],
)
def test_what_is_merely_called_mask_is_none(paths):
    assert _find(paths) is None


def test_a_folder_without_such_names_is_listed_once():
    calls = []

    def list_paths():
        calls.append(1)
        return ["cat/1.jpg", "dog/unmasked.jpg", "dog/bigger.jpg"]

    assert find_masks(list_paths) is None
    assert len(calls) == 1


@pytest.mark.parametrize("given", [{}, {"label_pattern": None}], ids=["labelled", "unlabelled"])
def test_they_are_refused_by_name(given):
    paths = _pairs("images/{}.jpg", "masks/{}.png")
    with pytest.raises(UserError) as caught:
        check_masks("photos", IngestOptions(**given), lambda: paths)
    assert str(caught.value) == (
        "'photos' holds images and their masks, such as 'masks/0.png' of 'images/0.jpg', but masks "
        "cannot be stored yet, and would be taken for images; give only the images: photos/images. "
        "If they are images of their own, write an ingest.label_pattern that says so."
    )
    with pytest.raises(UserError, match="move the masks to another folder"):
        check_masks("photos", IngestOptions(), lambda: _pairs("{}.jpg", "{}_mask.png"))


def test_who_says_which_class_they_are_of_is_believed():
    options = IngestOptions(label_pattern="(?P<label>images|masks)/.+")
    check_masks("photos", options, lambda: _pairs("images/{}.jpg", "masks/{}.png"))
