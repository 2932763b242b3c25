"""A COCO file as rows."""

import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.coco import CocoError, read_coco
from image_pipeline.components.sources.table_rows import Row, read_rows

pytestmark = pytest.mark.unit


def make_coco(**changes):
    return {
        "images": [
            {"id": 5, "file_name": "b.jpg", "width": 40, "height": 20, "license": 1},
            {"id": 2, "file_name": "a.jpg"},
        ],
        "annotations": [
            {"id": 1, "image_id": 5, "category_id": 9, "bbox": [1, 2, 3, 4], "iscrowd": 1},
            {"id": 2, "image_id": 5, "category_id": 3, "bbox": [5, 6, 7, 8]},
        ],
        "categories": [{"id": 9, "name": "dog"}, {"id": 3, "name": "cat"}],
    } | changes


def test_images_have_their_boxes_in_the_order_of_the_file():
    first, second = read_coco(make_coco())
    assert (first["file_name"], first["image_id"]) == ("b.jpg", 5)
    assert first["boxes"]["size"] == [40, 20]
    assert first["boxes"]["boxes"] == [
        {"bbox": [1, 2, 3, 4], "category": "dog", "iscrowd": 1},
        {"bbox": [5, 6, 7, 8], "category": "cat", "iscrowd": 0},
    ]
    assert first["boxes"]["classes"] == ["cat", "dog"]
    assert second == {"file_name": "a.jpg", "image_id": 2, "boxes": {"size": [], "boxes": []}}


def test_a_category_that_is_not_listed_is_called_by_its_id():
    first, _ = read_coco(make_coco(categories=[]))
    assert [each["category"] for each in first["boxes"]["boxes"]] == [9, 3]


def test_an_annotation_of_no_image_is_refused():
    stray = [{"image_id": 77, "category_id": 3, "bbox": [1, 2, 3, 4]}]
    with pytest.raises(CocoError, match=r"1 images have annotations, but are not listed.* id 77"):
        read_coco(make_coco(annotations=stray))


@pytest.mark.parametrize("key", ["images", "annotations", "categories"])
def test_what_is_no_coco_file_is_refused(key):
    for value in (None, {}, [1]):
        with pytest.raises(CocoError, match=f"must be a COCO file.* but its '{key}' is none"):
            read_coco(make_coco(**{key: value}))


def test_a_json_file_is_a_table(tmp_path):
    path = tmp_path / "instances.json"
    outlined = make_coco()
    outlined["annotations"][0]["segmentation"] = [[0] * 1000]
    path.write_text(json.dumps(outlined))
    assert [row.cells["file_name"] for row in read_rows(str(path))] == ["b.jpg", "a.jpg"]
    path.write_text('[{"image": "a.jpg", "label": "x"}, 3]')
    assert list(read_rows(str(path))) == [
        Row(1, {"image": "a.jpg", "label": "x"}),
        Row(2, {}, "it is no JSON object"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"images": [,]}', r"instances.json:2: it is no JSON"),
        ("3", "must be a COCO file or a list of objects"),
        ('{"a": 1}', "must be a COCO file, with lists of images"),
        ("[" * 100_000, "it is no JSON"),
    ],
)
def test_a_broken_json_file_is_named(tmp_path, text, message):
    path = tmp_path / "instances.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        list(read_rows(str(path)))
