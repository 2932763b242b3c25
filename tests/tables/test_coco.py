"""A COCO file as rows."""

import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.box_cells import read_boxes
from image_pipeline.components.sources.column_types import BoxGuess
from image_pipeline.components.sources.rows import Row, TableError
from image_pipeline.components.sources.source_kinds import read_rows
from image_pipeline.components.tables.json_rows import read_coco

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


@pytest.mark.parametrize(
    ("licenses", "expected"),
    [
        ([{"id": 1, "name": "CC BY 4.0", "url": "https://a.org"}], ["CC BY 4.0", ""]),
        ([{"id": "1", "name": "", "url": "https://a.org"}, "other"], ["https://a.org", ""]),
        ([{"id": 7, "name": "CC BY 4.0"}], [None, None]),
        ([{"id": 1, "name": ""}], [None, None]),
        ({"1": "CC BY 4.0"}, [None, None]),
    ],
)
def test_images_have_their_licences_by_name(tmp_path, licenses, expected):
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(make_coco(licenses=licenses)))
    rows = [row.cells for row in read_rows(str(path))]
    assert [row.get("license") for row in rows] == expected
    assert [row["file_name"] for row in rows] == ["b.jpg", "a.jpg"]


def test_a_category_that_is_not_listed_is_called_by_its_id():
    first, _ = read_coco(make_coco(categories=[]))
    assert [each["category"] for each in first["boxes"]["boxes"]] == [9, 3]


def test_an_annotation_of_no_image_is_refused():
    stray = [{"image_id": 77, "category_id": 3, "bbox": [1, 2, 3, 4]}]
    with pytest.raises(TableError, match=r"1 images have annotations, but are not listed.* id 77"):
        read_coco(make_coco(annotations=stray))


def test_an_annotation_of_two_images_is_refused():
    images = [{"id": 5, "file_name": name} for name in ("a.jpg", "b.jpg")]
    with pytest.raises(TableError, match="2 images have the id 5, which annotations name"):
        read_coco(make_coco(images=images))
    first, second = read_coco(make_coco(images=images, annotations=[]))
    assert first["boxes"]["boxes"] == second["boxes"]["boxes"] == []


@pytest.mark.parametrize("key", ["images", "annotations", "categories"])
def test_ids_that_are_lists_are_refused(key):
    with pytest.raises(TableError, match=f"its '{key}' is not such a list"):
        read_coco(make_coco(**{key: [{"id": [1]}]}))


@pytest.mark.parametrize("make_id", [float, str])
def test_ids_are_in_the_order_of_their_numbers(make_id):
    categories = [{"id": make_id(n), "name": f"c{n}"} for n in (10, 2)]
    first, _ = read_coco(make_coco(categories=categories, annotations=[]))
    assert first["boxes"]["classes"] == ["c2", "c10"]


def test_names_of_categories_are_those_of_boxes():
    names = [" dog ", 4, None, "dog"]
    categories = [{"id": n, "name": name} for n, name in enumerate(names)]
    boxes = [{"image_id": 5, "category_id": n, "bbox": [1, 2, 3, 4]} for n in range(4)]
    first, _ = read_coco(make_coco(categories=categories, annotations=boxes))
    guess = BoxGuess()
    guess.see(first["boxes"])
    assert guess.classes == ("dog", "4", "2")
    assert [box.name for box in read_boxes(first["boxes"])[1]] == ["dog", "4", "2", "dog"]


@pytest.mark.parametrize(
    ("width", "height", "size"),
    [(40.0, 20.0, [40, 20]), (0, 0, []), (-1, 20, []), ("40", 20, []), (None, None, [])],
)
def test_a_size_is_stated_if_it_can_be_one(width, height, size):
    image = {"id": 5, "file_name": "b.jpg", "width": width, "height": height}
    (first,) = read_coco(make_coco(images=[image]))
    assert first["boxes"]["size"] == size


@pytest.mark.parametrize("key", ["images", "annotations", "categories"])
def test_what_is_no_coco_file_is_refused(key):
    for value in (None, {"1": 1}, [1], "1"):
        with pytest.raises(TableError, match=f"COCO file.* but its '{key}' is not such a list"):
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
        Row(2, {}, "it is not a JSON object"),
    ]


@pytest.mark.parametrize("half", ["\\ud800", "\\uDC00"])
def test_half_a_character_is_no_text(tmp_path, half):
    path = tmp_path / "images.json"
    path.write_text(f'[{{"image": "{half}.jpg"}}, {{"image": "\\ud83d\\ude00.jpg"}}]')
    assert list(read_rows(str(path))) == [
        Row(1, {}, "it is not a JSON object"),
        Row(2, {"image": "\N{GRINNING FACE}.jpg"}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"images": [,]}', r"instances.json:2: it is not valid JSON"),
        ("3", "must be a COCO file or a list of objects"),
        ('{"a": 1}', "must be a COCO file, with lists of images"),
        ("[" * 100_000, "it is not valid JSON"),
    ],
)
def test_a_broken_json_file_is_named(tmp_path, text, message):
    path = tmp_path / "instances.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        list(read_rows(str(path)))
