"""Each image with its mask, by templates of their paths."""

import os

import pytest

from image_pipeline.components.sources.folder import NOT_A_FILE, OUTSIDE, Folder, list_images
from image_pipeline.components.sources.pairs import (
    MASK_WITHOUT_IMAGE,
    TWO_MASKS,
    Pairs,
    match_template,
    names_in,
)

pytestmark = pytest.mark.unit


def _touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))


def _list(folder, images="images/{key}.*", masks="masks/{key}.png", follow_links=False):
    return list(Pairs(Folder(str(folder), follow_links), images, masks).list())


def _pairs(*args, **settings):
    return {ref.path: ref.mask and ref.mask.path for ref in _list(*args, **settings)}


def _problems(*args, **settings):
    return {ref.path: ref.problem for ref in _list(*args, **settings)}


@pytest.mark.parametrize(
    ("template", "path", "key"),
    [
        ("images/{key}.*", "images/7.jpg", ("7",)),
        ("images/{key}.*", "images/a/b/7.jpg", ("a/b/7",)),
        ("images/{key}.*", "images/7.tar.gz", ("7.tar",)),
        ("images/{key}.*", "images/7", None),
        ("images/{key}.*", "old/images/7.jpg", None),
        ("images/{key}.*", "imagesX7.jpg", None),
        ("{key}_L.png", "7_L.png", ("7",)),
        ("{key}_L.png", "7_L.PNG", None),
        ("{key}.png", ".png", None),
        ("*/{key}.png", "a/b/7.png", ("b/7",)),
        ("*/{key}.png", "7.png", None),
        ("{scene}/m/{key}.png", "x/m/7.png", ("7", "x")),
        ("{scene}/m/{scene}_{key}.png", "x/m/x_7.png", ("7", "x")),
        ("{scene}/m/{scene}_{key}.png", "x/m/y_7.png", None),
        ("a+b/{key}.png", "a+b/7.png", ("7",)),
        ("a+b/{key}.png", "aab/7.png", None),
        ("{key}.png", "new\nline.png", ("new\nline",)),
    ],
)
def test_a_template_tells_what_the_names_stand_for(template, path, key):
    assert match_template(template, path) == key


def test_names_in_braces():
    assert names_in("{scene}/m/{scene}_{key}.*") == {"scene", "key"}


def test_each_image_comes_with_its_mask_in_the_order_of_images(tmp_path):
    paths = [f"images/{name}" for name in ("10.jpg", "9.jpg", "a/1.png", "a.b/1.jpg")]
    masks = [f"masks/{name}.png" for name in ("10", "9", "a/1", "a.b/1")]
    _touch(tmp_path, *paths, *masks)
    assert _pairs(tmp_path) == dict(zip(paths, masks, strict=True))
    ordered = [ref.path for ref in list_images(str(tmp_path)) if ref.path.startswith("images/")]
    assert [ref.path for ref in _list(tmp_path)] == ordered
    assert [ref.mask.size_bytes for ref in _list(tmp_path)] == [
        len(_pairs(tmp_path)[ref.path]) for ref in _list(tmp_path)
    ]


def test_masks_may_stand_beside_their_images_or_in_their_scene(tmp_path):
    _touch(tmp_path, "7.jpg", "7_mask.png", "x/8.jpg", "x/8_mask.png")
    beside = {"images": "{key}.*", "masks": "{key}_mask.png"}
    assert _pairs(tmp_path, **beside) == {"7.jpg": "7_mask.png", "x/8.jpg": "x/8_mask.png"}
    _touch(tmp_path / "scenes", *(f"{s}/{k}/1.png" for s in "xy" for k in ("rgb", "gt")))
    scenes = {"images": "{scene}/rgb/{key}.png", "masks": "{scene}/gt/{key}.png"}
    assert _pairs(tmp_path / "scenes", **scenes) == {
        "x/rgb/1.png": "x/gt/1.png",
        "y/rgb/1.png": "y/gt/1.png",
    }


def test_what_lacks_its_counterpart_is_listed_where_it_stands(tmp_path):
    _touch(tmp_path, "images/1.jpg", "images/2.jpg", "masks/2.png", "masks/3.png", "other/4.jpg")
    assert _pairs(tmp_path) == {
        "images/1.jpg": None,
        "images/2.jpg": "masks/2.png",
        "masks/3.png": None,
        "other/4.jpg": None,
    }
    alone = [ref for ref in _list(tmp_path) if ref.problem]
    assert [(ref.path, ref.problem, ref.message) for ref in alone] == [
        (
            "masks/3.png",
            MASK_WITHOUT_IMAGE,
            "there is no image for it that is called images/{key}.*",
        )
    ]


def test_of_two_masks_none_is_taken(tmp_path):
    _touch(tmp_path, "images/1.jpg", "masks/1.png", "masks/1.tif", "images/2.jpg", "masks/2.png")
    one, two = _list(tmp_path, masks="masks/{key}.*")
    assert (one.path, one.mask, one.problem) == ("images/1.jpg", None, TWO_MASKS)
    assert one.message == (
        "two files are its mask, 'masks/1.png' and 'masks/1.tif'; keep one, or make "
        "ingest.masks.masks narrower"
    )
    assert (two.problem, two.mask.path) == (None, "masks/2.png")
    assert _pairs(tmp_path)["images/1.jpg"] == "masks/1.png"


def test_two_images_of_one_key_have_the_same_mask(tmp_path):
    _touch(tmp_path, "images/1.jpg", "images/1.png", "masks/1.png")
    assert _pairs(tmp_path) == {"images/1.jpg": "masks/1.png", "images/1.png": "masks/1.png"}


def test_texts_are_neither_images_nor_masks(tmp_path):
    names = ["images/1.jpg", "images/1.txt", "masks/1.png", "masks/1.txt", "masks/readme.md"]
    _touch(tmp_path, *names)
    assert _pairs(tmp_path, masks="masks/{key}.*") == {
        "images/1.jpg": "masks/1.png",
        "images/1.txt": None,
        "masks/1.txt": None,
        "masks/readme.md": None,
    }
    assert set(_problems(tmp_path, masks="masks/{key}.*").values()) == {None}


def test_links_are_images_and_masks_as_in_any_folder(tmp_path):
    folder = tmp_path / "data"
    _touch(tmp_path, "data/images/1.jpg", "data/masks/1.png", "out.png", "data/images/2.jpg")
    os.symlink("1.jpg", folder / "images" / "3.jpg")
    os.symlink("1.png", folder / "masks" / "3.png")
    os.symlink(tmp_path / "out.png", folder / "masks" / "2.png")
    os.symlink("nowhere", folder / "images" / "4.jpg")
    (without,) = (ref.mask for ref in _list(folder) if ref.path == "images/2.jpg")
    assert (without.path, without.problem) == ("masks/2.png", OUTSIDE)
    followed = {ref.path: ref for ref in _list(folder, follow_links=True)}
    assert followed["images/2.jpg"].mask.problem is None
    assert followed["images/3.jpg"].mask.path == "masks/3.png"
    assert followed["images/4.jpg"].problem == NOT_A_FILE
