import dataclasses
import re

import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.counted_folders import Tally
from image_pipeline.components.meaning.label_map import describe_levels, guess_classes, read_levels
from image_pipeline.components.meaning.layout import understand
from image_pipeline.components.meaning.masks import Masks, find_masks
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.pairs import match_template

pytestmark = pytest.mark.unit


def _find(paths):
    return find_masks(lambda: paths)


def _check(options, paths):
    return understand("photos", options, Tally(paths), lambda: paths)


def _pairs(image, mask, count=10):
    return [each.format(n) for n in range(count) for each in (image, mask)]


@pytest.mark.parametrize(
    ("image", "mask", "image_dir", "templates"),
    [
        ("images/{}.jpg", "masks/{}.png", "images", ("images/{key}.*", "masks/{key}.png")),
        ("images/{}.png", "masks/{}.png", "images", ("images/{key}.*", "masks/{key}.png")),
        (
            *("data/images/a/{}.jpg", "data/masks/a/{}.png", "data/images/a"),
            ("data/images/{key}.*", "data/masks/{key}.png"),
        ),
        (
            *("JPEGImages/{}.jpg", "SegmentationClass/{}.png", "JPEGImages"),
            ("JPEGImages/{key}.*", "SegmentationClass/{key}.png"),
        ),
        (
            *("scans/{}.jpg", "Ground_Truth/{}_L.png", "scans"),
            ("scans/{key}.*", "Ground_Truth/{key}_L.png"),
        ),
        (
            *("part1/{}.jpg", "part1_GroundTruth/{}_segmentation.png", "part1"),
            ("part1/{key}.*", "part1_GroundTruth/{key}_segmentation.png"),
        ),
        (
            *("images/x_{}.jpg", "annotations/trimaps/x_{}.png", "images"),
            ("images/{key}.*", "annotations/trimaps/{key}.png"),
        ),
        (
            "leftImg8bit/val/c/c_{}_leftImg8bit.png",
            *("gtFine/val/c/c_{}_gtFine_labelIds.png", "leftImg8bit/val/c"),
            ("leftImg8bit/{key}_leftImg8bit.*", "gtFine/{key}_gtFine_labelIds.png"),
        ),
        (*("RGB/{}.png", "SemSeg/{}.png", "RGB"), ("RGB/{key}.*", "SemSeg/{key}.png")),
        ("train/{}.jpg", "trainannot/{}.png", "train", ("train/{key}.*", "trainannot/{key}.png")),
        ("{}.jpg", "{}_mask.png", None, ("{key}.*", "{key}_mask.png")),
        ("cat/{}.jpg", "cat/{}-seg.png", None, ("{key}.*", "{key}-seg.png")),
        ("images/{}.jpg", "images/{}.MASK.png", None, ("{key}.*", "{key}.MASK.png")),
    ],
)
def test_masks_have_names_of_images(image, mask, image_dir, templates):
    expected = Masks(10, mask.format(0), image.format(0), image_dir, templates)
    assert _find(_pairs(image, mask)) == expected
    found = _find([*_pairs(image, mask), "readme.txt", "other/x.jpg"])
    assert dataclasses.replace(found, others=()) == expected
    for number in range(10):
        found = map(match_template, templates, (image.format(number), mask.format(number)))
        assert len({*found} - {None}) == 1


def test_a_folder_called_so_that_holds_everything_says_nothing():
    paths = _pairs("polyps-SEG/images/{}.jpg", "polyps-SEG/masks/{}.jpg")
    templates = ("polyps-SEG/images/{key}.*", "polyps-SEG/masks/{key}.jpg")
    image, mask = "polyps-SEG/images/0.jpg", "polyps-SEG/masks/0.jpg"
    assert _find([*paths, "readme.txt"]) == Masks(10, mask, image, "polyps-SEG/images", templates)


def test_of_several_masks_an_image_those_of_ids_are_chosen():
    kinds = ("color", "instanceIds", "labelIds")
    paths = [
        path
        for kind in kinds
        for path in _pairs(
            "leftImg8bit/val/c_{}_leftImg8bit.png", f"gtFine/val/c_{{}}_gtFine_{kind}.png"
        )
    ]
    found = _find(sorted(set(paths)))
    assert found.count == 30
    assert found.templates == (
        "leftImg8bit/{key}_leftImg8bit.*",
        "gtFine/{key}_gtFine_labelIds.png",
    )


def test_folders_of_neither_are_named_to_be_left_out():
    paths = [
        *_pairs("a/rgb/{}.jpg", "a/GT/{}_mask.png"),
        *_pairs("b/rgb/{}.jpg", "b/GT/{}_mask.png"),
    ]
    paths += ["a/nir/0.tif", "a/depth/far/0.tif", "test/rgb_only/9.jpg", "b/GT/x_color.png"]
    found = _find([*paths, "a/nir/readme.txt", "b/rgb/10.jpg"])
    assert found.templates == ("{scene}/rgb/{key}.*", "{scene}/GT/{key}_mask.png")
    assert found.others == ("a/depth/", "a/nir/", "test/")
    named = '\'ingest.leave_out=["a/depth/", "a/nir/", "test/"]\', for images in a/depth/, a/nir/, '
    with pytest.raises(UserError, match=re.escape(named)):
        _check(IngestOptions(), paths)


@pytest.mark.parametrize(
    ("image", "mask", "templates"),
    [
        ("train/{}.jpg", "trainannot/{}.png", ("{split}/{key}.*", "{split}annot/{key}.png")),
        (
            "train_img/{}.jpg",
            "train_label/{}.png",
            ("{split}_img/{key}.*", "{split}_label/{key}.png"),
        ),
    ],
)
def test_folders_that_name_a_split_and_a_kind_have_one_template(image, mask, templates):
    parts = ((a.replace("train", split) for a in (image, mask)) for split in ("test", "train"))
    # Both splits have an image of each name: a mask is of its own split's.
    found = _find(sorted(path for pair in parts for path in _pairs(*pair)))
    assert (found.count, found.mask.split("/")[0][:4], found.templates) == (20, "test", templates)
    assert found.image.startswith("test")


def test_of_class_and_object_masks_those_of_classes_are_taken():
    kinds = ("Object", "ObjectVisualization", "Class")
    pairs = [_pairs("JPEGImages/{}.jpg", f"Segmentation{kind}/{{}}.png") for kind in kinds]
    found = _find(sorted({path for each in pairs for path in each}))
    assert found.templates == ("JPEGImages/{key}.*", "SegmentationClass/{key}.png")


def test_of_many_scenes_no_single_folder_is_named():
    found = _find([p for n in "ab" for p in _pairs(f"{n}/images/{{}}.jpg", f"{n}/masks/{{}}.png")])
    assert (found.count, found.image_dir) == (20, None)
    assert found.templates == ("{scene}/images/{key}.*", "{scene}/masks/{key}.png")


def test_masks_of_several_kinds_of_files_have_one_template():
    mixed = [*_pairs("images/a{}.jpg", "masks/a{}.png"), *_pairs("images/b{}.jpg", "masks/b{}.tif")]
    assert _find(mixed).templates == ("images/{key}.*", "masks/{key}.*")


def test_pairs_without_one_rule_have_no_templates():
    mixed = [*_pairs("{}.jpg", "{}_mask.png"), *_pairs("images/a{}.jpg", "masks/a{}.png")]
    assert (_find(mixed).count, _find(mixed).templates) == (20, None)


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
        _check(IngestOptions(**given), paths)
    assert str(caught.value) == (
        "'photos' holds images and their masks, such as 'masks/0.png' of 'images/0.jpg'; to store "
        'each pair, set ingest.masks=\'{images: "images/{key}.*", masks: "masks/{key}.png"}\'. For '
        "the images alone, give photos/images. If they are images of their own, write an "
        "ingest.label_pattern that says so."
    )
    with pytest.raises(UserError) as caught:
        _check(IngestOptions(), _pairs("{}.jpg", "{}_mask.png"))
    assert '{images: "{key}.*", masks: "{key}_mask.png"}' in str(caught.value)
    assert "For the images alone" not in str(caught.value)
    mixed = [*_pairs("{}.jpg", "{}_mask.png"), *_pairs("images/a{}.jpg", "masks/a{}.png")]
    with pytest.raises(
        UserError, match=r"masks: …\}' with templates of their paths: no single one"
    ):
        _check(IngestOptions(**given), mixed)


def test_who_says_where_they_are_is_believed():
    options = IngestOptions(masks={"images": "images/{key}.*", "masks": "masks/{key}.png"})
    assert _check(options, _pairs("images/{}.jpg", "masks/{}.png")) == (options, ())


def test_who_says_which_class_they_are_of_is_believed():
    options = IngestOptions(label_pattern="(?P<label>images|masks)/.+")
    assert _check(options, _pairs("images/{}.jpg", "masks/{}.png")) == (options, ())


def _write(path, pixels, mode=None):
    image = Image.fromarray(pixels)
    if mode == "P":
        image.putpalette([9, 8, 7] * 256)
    image.save(path)


def _read(folder, *names):
    return read_levels(names, lambda name: (folder / name).read_bytes())


def test_levels_indices_and_colours_are_read(tmp_path):
    gray = np.array([[3, 7], [0, 3]], np.uint8)
    _write(tmp_path / "gray.png", gray)
    _write(tmp_path / "palette.png", gray, mode="P")
    _write(tmp_path / "rgb.png", np.stack([gray] * 3, -1))
    color = np.array([[[128, 64, 128], [0, 0, 142]]], np.uint8)
    _write(tmp_path / "color.png", color)
    (tmp_path / "bad.png").write_text("text")
    names = [path.name for path in sorted(tmp_path.iterdir())]
    for name in ("gray.png", "palette.png", "rgb.png"):
        assert _read(tmp_path, name, "bad.png") == [0, 3, 7]
    assert _read(tmp_path, "color.png") == ["#00008e", "#804080"]
    assert _read(tmp_path, *names) == [0, 3, 7, "#00008e", "#804080"]
    assert _read(tmp_path, "bad.png") == []


def test_they_are_told_in_a_line():
    assert describe_levels([0, 1]) == "2 values: 0, 1"
    assert describe_levels(range(20)) == "20 values: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"
    assert describe_levels([]) == "nothing that can be read"


@pytest.mark.parametrize(
    ("levels", "classes"),
    [
        ([0, 255], {"background": 0, "foreground": 255}),
        (["#000000", "#ffffff"], {"class_0": "#000000", "class_1": "#ffffff"}),
        ([0, 1, 255], None),
        ([0, 1], None),
        ([0, "#00008e"], None),
        ([], None),
        ([f"#{number:06x}" for number in range(256)], None),
    ],
)
def test_names_are_given_where_ids_will_not_do(levels, classes):
    assert guess_classes(levels) == classes
