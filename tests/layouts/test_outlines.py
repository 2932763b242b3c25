"""Masks of outlines, in COCO files and LabelMe's: what COCO's own code draws, what is refused."""

import base64
import json
import re

import cv2
import numpy as np
import pytest
from pycocotools import mask as coco
from pycocotools.coco import COCO

from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.source_kinds import read_location
from tests.drawings import encode_png
from tests.ingest_runs import ingest
from tests.layouts.drawn import HEIGHT, WIDTH, boxes_of, draw_images, splits_of, understand

pytestmark = pytest.mark.beam

NONE = 65_535
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


CORNERS = [3, 4, 20, 4, 20.5, 25, 3, 20]
POLYGON = {"label": "dog", "points": np.reshape(CORNERS, (4, 2)).tolist()}
POLYGON["shape_type"] = "polygon"
RECTANGLE = {"label": "cat", "points": [[15, 20], [5, 10]], "shape_type": "rectangle"}
CIRCLE = {"label": "ant", "points": [[30, 12], [30, 17]], "shape_type": "circle"}
PIXELS = np.array([[0, 255, 0], [255, 255, 255], [0, 0, 255]], np.uint8)
MASK = {"label": "dog", "points": [[37, 27.0], [39, 29]], "shape_type": "mask"}
MASK["mask"] = base64.b64encode(encode_png(PIXELS)).decode()
POINT = {"label": "eye", "points": [[3, 4]], "shape_type": "point"}


def write_files(folder, **files):
    """A JSON file for each name, of shapes or of a whole content; and images of those names."""
    draw_images(folder, [f"{name}.png" for name in files])
    for name, content in files.items():
        if isinstance(content, list):
            content = {"version": "5.0.1", "flags": {}, "shapes": content}
            content |= {"imagePath": f"{name}.png", "imageData": None}
            content |= {"imageHeight": HEIGHT, "imageWidth": WIDTH}
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def _masks(listing):
    data = (read_location(ref.mask, 10**7) for ref in listing.refs() if ref.problem is None)
    return [cv2.imdecode(np.frombuffer(each, np.uint8), cv2.IMREAD_UNCHANGED) for each in data]


def test_rectangles_are_boxes_and_points_are_told(tmp_path):
    listing = understand(write_files(tmp_path, a=[RECTANGLE, POINT], b=[]))
    assert boxes_of(listing) == {"a.png": [("cat", 5, 10, 15, 20)], "b.png": []}
    assert listing.options.understood == (
        "LabelMe: boxes around shapes; ingest.columns={mask: segmentation} takes masks of them",
    )
    assert listing.noticed == ("LabelMe: points and lines have no area, and are left out: 1",)
    asked = understand(tmp_path, columns={"mask": "segmentation"})
    assert asked.options.masks.classes == {"background": (NONE,), "cat": (1,)}
    assert (_masks(asked)[0] == 1).sum() == 100


def test_shapes_to_be_ignored_are_of_no_class(tmp_path):
    ignored = RECTANGLE | {"label": "__ignore__"}
    folder = write_files(tmp_path, a=[ignored, {**RECTANGLE, "points": [[20, 2], [30, 8]]}])
    listing = understand(folder)
    assert boxes_of(listing) == {"a.png": [("cat", 20, 2, 30, 8)]}
    assert listing.noticed[0].endswith("__ignore__ are not boxes, and are left out: 1")
    options = understand(folder, columns={"mask": "segmentation"}).options
    assert options.masks.classes == {"background": (NONE,), "cat": (2,)}
    assert options.masks.ignored == (1,)


def test_other_shapes_are_masks_of_their_labels_the_smaller_on_top(tmp_path):
    old = {"shapes": [{k: POLYGON[k] for k in ("label", "points")}], "imagePath": "b.png"}
    shapes = [CIRCLE, RECTANGLE, POLYGON]
    folder = write_files(tmp_path, a=shapes, b=old | {"imageData": base64.b64encode(b"x").decode()})
    listing = understand(folder)
    classes = {"background": (NONE,), "ant": (1,), "cat": (2,), "dog": (3,)}
    assert listing.options.masks.classes == classes and listing.options.masks.ignored == ()
    inside = coco.decode(coco.frPyObjects([CORNERS], HEIGHT, WIDTH))[..., 0].astype(bool)
    row, column = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    distance = np.hypot(column - 30, row - 12)
    first, second = _masks(listing)
    np.testing.assert_array_equal(second, np.where(inside, 3, NONE))
    assert (first[10:20, 5:15] == 2).all() and (first == 2).sum() == 100
    assert (first[distance < 4.4] == 1).all() and (first[distance > 5.6] != 1).all()
    assert (first == 3).sum() == inside.sum() - inside[10:20, 5:15].sum()
    boxes = understand(folder, columns={"boxes": "boxes"})
    assert boxes_of(boxes)["b.png"] == [("dog", 3, 4, 20.5, 25)]


def test_masks_within_files_are_drawn_where_their_points_say(tmp_path):
    listing = understand(write_files(tmp_path, a=[MASK, RECTANGLE], b=[RECTANGLE]))
    expected = np.full((HEIGHT, WIDTH), NONE)
    expected[10:20, 5:15] = 1
    expected[27:, 37:][PIXELS > 0] = 2
    np.testing.assert_array_equal(_masks(listing)[0], expected)
    boxes = understand(tmp_path, columns={"boxes": "boxes"})
    assert boxes_of(boxes)["a.png"] == [("dog", 37, 27, 40, 30), ("cat", 5, 10, 15, 20)]


def test_images_are_found_in_other_folders_and_folders_name_the_splits(tmp_path):
    for split, name in (("train", "a"), ("val", "b")):
        write_files(tmp_path / split / "images", **{name: [RECTANGLE]})
        (tmp_path / split / "labels").mkdir()
        path = tmp_path / split / "images" / f"{name}.json"
        content = json.loads(path.read_text()) | {"imagePath": f"..\\images\\{name}.png"}
        (tmp_path / split / "labels" / "0.json").write_text(json.dumps(content))
        path.unlink()
    assert splits_of(understand(tmp_path)) == {
        "train/images/a.png": "train", "val/images/b.png": "eval"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (RECTANGLE | {"label": " "}, "bad.json has a shape without a label, {'label': ' '"),
        (RECTANGLE | {"points": [[1, 2]]}, "bad.json has a rectangle of 'cat' of 1 points"),
        (POLYGON | {"points": [[1, 2], [3]]}, "bad.json has a shape of 'dog' whose points are no"),
        (POLYGON | {"points": [[1, 10**400]]}, "is not valid JSON|whose points are not pairs"),
        (CIRCLE | {"points": [[1, 2], [1e999, 3]]}, "'ant' whose points are not finite"),
        (POLYGON | {"shape_type": "splat"}, "the type 'splat', which is not drawn"),
        (POLYGON | {"label": "\ud800"}, "bad.json is not valid JSON .*surrogates not allowed"),
        (7, "bad.json has a shape without a label, 7"),
    ],
)
def test_a_file_that_is_wrong_is_one_row_that_says_so(tmp_path, shape, message):
    write_files(tmp_path, good=[POLYGON], bad=[shape], other={"a": 1})
    listing = understand(tmp_path, max_bad_fraction=1)
    (problem,) = [ref.message for ref in listing.refs() if ref.problem]
    assert re.search(message, problem)
    assert "LabelMe: JSON files that have no shapes are not read: 1" in listing.noticed


def test_a_folder_without_any_area_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no shape has an area.*LabelMe's flags are, can be a CSV"):
        understand(write_files(tmp_path, a=[POINT], b=[]))
