"""Masks of objects' outlines, in COCO files: what COCO's own code draws, and what is refused."""

import json

import cv2
import numpy as np
import pytest
from pycocotools import mask as coco
from pycocotools.coco import COCO

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.source_kinds import read_location
from tests.ingest_runs import ingest
from tests.layouts.drawn import boxes_of, draw_images, understand

pytestmark = pytest.mark.beam
WIDTH, HEIGHT, NONE = 40, 30, 65_535
ASKED = {"columns": {"mask": "segmentation"}}


def write_instances(folder, annotations, categories=(("cat", 7), ("dog", 0)), **image):
    """A COCO file of one image, beside it; returns its path."""
    draw_images(folder, ["0.png"], (WIDTH, HEIGHT))
    listed = {"id": 5, "file_name": "0.png", "width": WIDTH, "height": HEIGHT} | image
    content = {
        "images": [listed],
        "annotations": [{"id": n, "image_id": 5} | each for n, each in enumerate(annotations)],
        "categories": [{"id": id_, "name": name} for name, id_ in categories],
    }
    path = folder / "instances.json"
    path.write_text(json.dumps(content))
    return path


def read_mask(listing):
    """The levels of the first image's mask."""
    data = read_location(next(iter(listing.refs())).mask, 10**7)
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)


def _draw_objects():
    """Outlines of every form, with holes and several parts, some partly outside."""
    random = np.random.default_rng(5)
    pixels = random.random((HEIGHT, WIDTH)) < 0.4
    packed = coco.encode(np.asfortranarray(pixels[::-1].astype(np.uint8)))
    flat = pixels.T.ravel()
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff([0, *edges, flat.size]).tolist()
    counts = [0, *counts] if flat[0] else counts
    polygons = [random.uniform(-6, 46, 2 * n).round(2).tolist() for n in (3, 4, 7)]
    size = [HEIGHT, WIDTH]
    return [
        polygons[:1],
        {"size": size, "counts": packed["counts"].decode()},
        {"size": size, "counts": counts},
        polygons[1:],
        [[3.2, 4.1, 9.7, 4.1, 9.7, 11.5]],
    ]


def test_outlines_are_drawn_as_cocos_own_code_does_the_smaller_on_top(tmp_path):
    objects = _draw_objects()
    annotations = [
        {"category_id": (7, 0, 300)[n % 3], "iscrowd": int("counts" in each), "segmentation": each}
        for n, each in enumerate(objects)
    ]
    categories = (("cat", 7), ("dog", 0), ("far", 300))
    path = write_instances(tmp_path, annotations, categories)
    listing = understand(path)
    judge = COCO(str(path))
    drawn = [(each, judge.annToMask(each).astype(bool)) for each in judge.anns.values()]
    expected = np.full((HEIGHT, WIDTH), NONE)
    for each, pixels in sorted(drawn, key=lambda pair: -pair[1].sum()):
        expected[pixels] = each["category_id"]
    np.testing.assert_array_equal(read_mask(listing), expected)
    union = np.any([pixels for _, pixels in drawn], axis=0)
    assert (expected != NONE).sum() == union.sum() and {*np.unique(expected)} == {0, 7, 300, NONE}
    assert listing.options.masks.classes == {
        "background": (NONE,), "dog": (0,), "cat": (7,), "far": (300,)
    }  # fmt: skip
    assert listing.options.understood[-1] == (
        "instances.json: masks of categories, drawn of outlines, of which the smaller is on top; "
        "classes: background, dog, cat, far"
    )


def test_of_outlines_of_one_size_the_one_with_the_greater_id_is_on_top(tmp_path):
    square = [[2, 2, 8, 2, 8, 8, 2, 8]]
    objects = [{"category_id": 0, "segmentation": square, "id": 10},
               {"category_id": 7, "segmentation": square, "id": 9}]  # fmt: skip
    assert read_mask(understand(write_instances(tmp_path, objects)))[5, 5] == 0


def test_a_file_with_boxes_and_outlines_means_boxes_unless_masks_are_asked_for(tmp_path):
    outline = {"category_id": 7, "segmentation": [[2, 2, 8, 2, 8, 8]], "bbox": [2, 2, 6, 6]}
    objects = [outline, outline | {"category_id": 4}]
    path = write_instances(tmp_path / "set", objects, (("background", 4), ("cat", 7)))
    boxes, masks = understand(path), understand(path, **ASKED)
    assert boxes_of(boxes)["0.png"][0] == ("cat", 2, 2, 6, 6)
    assert boxes.options.masks is None and boxes.options.understood[0].startswith(
        "instances.json: boxes; ingest.columns={mask: segmentation} takes the outlines of objects"
    )
    assert masks.options.masks.classes == {"background": (NONE, 4), "cat": (7,)}
    assert "boxes" not in masks.options.columns
    manifest = ingest(
        path, tmp_path / "out", prepare={"encoding": "png"}, splits={"train": 1}, **ASKED
    )
    covered = int(coco.area(coco.frPyObjects([[2, 2, 8, 2, 8, 8]], HEIGHT, WIDTH))[0])
    assert manifest.splits["train"].mask_pixels == {"0": HEIGHT * WIDTH}  # The later one is on top.
    assert covered == 15


_SQUARE = [2, 2, 8, 2, 8, 8]
_COUNTS = {"size": [HEIGHT, WIDTH], "counts": [5, 3, 1192]}


@pytest.mark.parametrize(
    ("outline", "message"),
    [
        ([[2, 2, 8, 2, 8]], "of a polygon of 5 numbers, where three corners or more have two each"),
        ([_SQUARE, [1, 2, 3, 4]], "of a polygon of 4 numbers"),
        ([[2, 2, 8, "x", 8, 8]], "which is not a list of numbers"),
        ([[2, 2, 8, None, 8, 8]], "of a polygon of more than 1,048,576 pixels around"),
        ([[0, 0, 1e300, 0, 9, 9]], "of a polygon of more than 1,048,576 pixels around"),
        ([[41, 0, 50, 0, 50, 9]], "which lies outside of 40 x 30 pixels"),
        ([], "of which there is no outline"),
        ([[]], "of a polygon of 0 numbers"),
        (_COUNTS | {"size": [WIDTH, HEIGHT]}, r"of height and width \[40, 30\], where its own are"),
        (_COUNTS | {"counts": [5, 3]}, "must be run lengths of 1,200 pixels in all, and are 8"),
        (_COUNTS | {"counts": [5, -3, 1198]}, "of 1,200 pixels in all, and are none"),
        (_COUNTS | {"counts": "53"}, "of 1,200 pixels in all, and are 8"),
        (_COUNTS | {"counts": "5PPPPPPP"}, "whose counts are not packed run lengths, '5PPPPPPP'"),
        (_COUNTS | {"counts": None}, "of 1,200 pixels in all, and are none"),
    ],
)
def test_an_outline_that_is_none_is_quarantined_with_its_annotation(tmp_path, outline, message):
    objects = [{"category_id": 7, "segmentation": [_SQUARE]}]
    objects.append({"category_id": 7, "segmentation": outline})
    listing = understand(write_instances(tmp_path, objects))
    with pytest.raises(BadImage, match=rf"has in annotation 1, an object of .* 7, .*{message}"):
        read_mask(listing)


@pytest.mark.parametrize(
    ("objects", "image", "reason"),
    [
        ([{"category_id": 9, "segmentation": [_SQUARE]}], {}, "bad_mask"),
        ([{"category_id": 7, "segmentation": [_SQUARE]}], {"width": 50}, "mask_size"),
        ([{"category_id": 7, "segmentation": [_SQUARE]}], {"width": None}, "bad_mask"),
        ([{"category_id": 7, "segmentation": [_SQUARE]}], {"file_name": "\ud800"}, "bad_row"),
        ([{"category_id": 7, "segmentation": [_SQUARE]}], {"width": 2**30}, "bad_mask"),
    ],
)
def test_what_is_not_of_its_image_is_in_the_books(tmp_path, objects, image, reason):
    path = write_instances(tmp_path / "set", objects, **image)
    content = json.loads(path.read_text())
    draw_images(tmp_path / "set", ["1.png", "2.png"], (WIDTH, HEIGHT + 1))
    content["images"] += [{"id": n, "file_name": f"{n}.png", "width": WIDTH, "height": HEIGHT + 1}
                          for n in (1, 2)]  # fmt: skip
    path.write_text(json.dumps(content))
    manifest = ingest(path, tmp_path / "out", max_bad_fraction=0.5, splits={"train": 1})
    assert manifest.books.quarantine_reasons == {reason: 1} and manifest.books.written == 2
