"""LabelMe's files: shapes as boxes or masks, where images are, and files that are wrong."""

import base64
import json
import re

import cv2
import numpy as np
import pytest
from pycocotools import mask as coco

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.source_kinds import read_location
from tests.drawings import encode_png
from tests.layouts.drawn import HEIGHT, WIDTH, boxes_of, draw_images, splits_of, understand

pytestmark = pytest.mark.beam
NONE = 65_535
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
