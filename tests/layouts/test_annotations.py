"""Annotations in folders: Pascal VOC, YOLO, COCO files, ImageFolder, IDX, WebDatasets, masks."""

import json
import struct

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.source_kinds import kind_of, read_location
from tests.drawings import draw, encode_png
from tests.ingest_runs import ingest
from tests.layouts.drawn import (
    boxes_of,
    column_of,
    draw_images,
    labels_of,
    splits_of,
    understand,
    write_table,
)

pytestmark = pytest.mark.beam

_XML = """<annotation><filename>{name}</filename><size><width>40</width><height>30</height></size>
{objects}</annotation>"""
_OBJECT = """<object><name>{0}</name><difficult>{5}</difficult><bndbox><xmin>{1}</xmin>
<ymin>{2}</ymin><xmax>{3}</xmax><ymax>{4}</ymax></bndbox></object>"""


def _write_xml(path, name, *objects):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(_OBJECT.format(*each) for each in objects)
    path.write_text(_XML.format(name=name, objects=text))


def test_pascal_voc_counts_corners_from_one(tmp_path):
    draw_images(tmp_path / "JPEGImages", ["a.png", "b.png", "c.png"])
    xml = tmp_path / "Annotations"
    _write_xml(xml / "a.xml", "a.jpg", ("cat", 1, 1, 40, 30, 0), ("dog", 3, 4, 20, 29, 1))
    _write_xml(xml / "b.xml", "elsewhere/b.png", ("dog", 0, 2, 5, 6.5, 0))
    _write_xml(xml / "c.xml", "c.png")
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "train.txt").write_text("a\nb 1\n")
    (tmp_path / "ImageSets" / "Main" / "val.txt").write_text("c\n")
    listing = understand(tmp_path)
    assert boxes_of(listing) == {
        "JPEGImages/a.png": [("cat", 0, 0, 40, 30), ("dog", 2, 3, 20, 29)],
        "JPEGImages/b.png": [("dog", 0, 1, 5, 6.5)],
        "JPEGImages/c.png": [],
    }
    assert column_of(listing, "difficult")["JPEGImages/a.png"] == [0, 1]
    assert list(splits_of(listing).values()) == ["train", "train", "eval"]
    assert listing.options.boxes.classes == ("cat", "dog")


def test_annotations_in_folders_that_are_called_as_those_of_images(tmp_path):
    own = "ILSVRC/{}/CLS-LOC/train/n01440764/n01440764_{}.{}"
    draw_images(tmp_path, [own.format("Data", n, "JPEG") for n in range(3)])
    for number in range(2):
        name = f"n01440764_{number}"
        path = tmp_path / own.format("Annotations", number, "xml")
        _write_xml(path, name, ("n01440764", 2, 2, 9, 9, 0))
    listing = understand(tmp_path)
    assert boxes_of(listing) == {
        own.format("Data", n, "JPEG"): [("n01440764", 1, 1, 9, 9)] for n in range(2)
    }


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_an_image_folder_of_hugging_face(tmp_path, ending):
    for split, count in (("train", 4), ("validation", 2)):
        draw_images(tmp_path / split, [f"{n}.png" for n in range(count)])
        rows = [{"file_name": f"{n}.png", "label": "ab"[n % 2], "age": n} for n in range(count)]
        path = tmp_path / split / f"metadata.{ending}"
        if ending == "csv":
            write_table(path, [list(rows[0]), *(list(row.values()) for row in rows)])
        elif ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            pq.write_table(pa.Table.from_pylist(rows), path)
    listing = understand(tmp_path)
    assert labels_of(listing) == {
        **{f"train/{n}.png": "ab"[n % 2] for n in range(4)},
        **{f"validation/{n}.png": "ab"[n % 2] for n in range(2)},
    }
    assert list(splits_of(listing).values()) == ["train"] * 4 + ["eval"] * 2
    assert column_of(listing, "age")["train/3.png"] == 3


def test_objects_of_an_image_folder_are_boxes(tmp_path):
    draw_images(tmp_path / "train", ["0.png", "1.png"])
    rows = [
        {"file_name": f"{n}.png", "objects": {"bbox": [[4, 5, 10, 12]], "categories": [n]}}
        for n in range(2)
    ]
    (tmp_path / "train" / "metadata.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    listing = understand(tmp_path)
    assert boxes_of(listing)["train/1.png"] == [("1", 4, 5, 10, 12)]
    assert set(splits_of(listing).values()) == {None}  # of one split alone, shared out


@pytest.mark.parametrize("keys", [("image", "annotations"), ("imagefilename", "annotation")])
def test_createml_boxes_are_centre_and_sides(tmp_path, keys):
    for split, count in (("train", 3), ("valid", 2)):
        draw_images(tmp_path / split, [f"{n}.png" for n in range(count)])
        place = {"x": 10, "y": 12.5, "width": 8, "height": 5}
        boxes = [[{"label": "cat", "coordinates": place}] * n for n in range(count)]
        rows = [{keys[0]: f"{n}.png", keys[1]: boxes[n]} for n in range(count)]
        (tmp_path / split / "_annotations.createml.json").write_text(json.dumps(rows))
    listing = understand(tmp_path)
    assert boxes_of(listing)["train/2.png"] == [("cat", 10, 12.5, 8, 5)] * 2
    assert boxes_of(listing)["train/0.png"] == []
    assert list(splits_of(listing).values()) == ["train"] * 3 + ["eval"] * 2
    assert listing.options.boxes.format == "center_xywh"
    wrong = {name: place[name] for name in ("y", "width", "height")}
    rows = [{keys[0]: "0.png", keys[1]: [{"label": "cat", "coordinates": wrong}]}, 7, rows[1]]
    file = tmp_path / "valid" / "_annotations.createml.json"
    file.write_text(json.dumps(rows))
    problems = [ref.message for ref in understand(file, max_bad_fraction=1).refs() if ref.problem]
    assert "a box must have four numbers, got [None, 12.5, 8, 5]" in problems[0]
    assert "it is not a JSON object" in problems[1]


def test_corners_of_bdd100k_are_boxes_and_what_it_says_of_images_is_columns(tmp_path):
    draw_images(tmp_path / "images/100k", ["train/a.png", "train/b.png", "val/c.png"])
    car = {"category": "car", "box2d": {"x1": 1.5, "y1": 2, "x2": 20, "y2": 22}}
    lane = {"category": "lane", "poly2d": [{"vertices": [[1, 2]]}]}
    for split, names in (("train", "ab"), ("val", "c")):
        said = [
            {"name": f"{name}.png", "attributes": {"weather": f"w{name}"}, "labels": [car, lane]}
            for name in names
        ]
        path = tmp_path / "labels/det_20" / f"det_{split}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(said))
    listing = understand(tmp_path)
    paths = ["images/100k/train/a.png", "images/100k/train/b.png", "images/100k/val/c.png"]
    assert boxes_of(listing) == {path: [("car", 1.5, 2, 20, 22)] for path in paths}
    assert listing.options.boxes.format == "xyxy"
    assert list(column_of(listing, "weather").values()) == ["wa", "wb", "wc"]
    assert list(splits_of(listing).values()) == ["train", "train", "eval"]
    assert "det_train.json: objects that are lines or areas, not boxes: 2" in listing.noticed
    (tmp_path / "labels/det_20/det_val.json").rename(tmp_path / "labels/det_val.json")
    alone = understand(tmp_path / "labels/det_val.json")
    assert boxes_of(alone) == {"c.png": [("car", 1.5, 2, 20, 22)]}


def test_boxes_of_visual_genome_are_a_corner_and_sides(tmp_path):
    draw_images(tmp_path, ["VG_100K/1.png", "VG_100K_2/2.png"])
    tree = {"names": ["tree", "oak"], "x": 1, "y": 2, "w": 10, "h": 12, "synsets": []}
    said = [
        {"image_id": n, "objects": [tree], "image_url": f"https://x/VG/{n}.png"} for n in (1, 2)
    ]
    (tmp_path / "objects.json").write_text(json.dumps(said))
    listing = understand(tmp_path / "objects.json")
    assert listing.options.boxes.format == "xywh"
    boxes = [("tree", 1, 2, 10, 12)]
    assert boxes_of(listing) == {"VG_100K/1.png": boxes, "VG_100K_2/2.png": boxes}


@pytest.mark.parametrize(
    "keys", [("images", "annotations", "categories"), ("imgs", "anns", "cats")]
)
@pytest.mark.parametrize("is_named", [True, False])
def test_coco_by_ids_and_in_short(tmp_path, keys, is_named):
    draw_images(tmp_path / "images", ["0.png", "1.png"])
    sets = ("train", "val")
    images = {str(n): {"id": n, "file_name": f"{n}.png", "set": sets[n]} for n in (0, 1)}
    box = {"bbox": [2, 3, 10, 8]} | ({"category_id": 7} if is_named else {})
    boxes = {str(n + 5): {"id": n + 5, "image_id": n, **box} for n in (0, 1)}
    names = {"7": {"id": 7, "name": "cat"}} if is_named else {}
    (tmp_path / "x.json").write_text(
        json.dumps(dict(zip(keys, (images, boxes, names), strict=True)))
    )
    listing = understand(tmp_path)
    found = [("cat" if is_named else "object", 2, 3, 10, 8)]
    assert boxes_of(listing) == {"images/0.png": found, "images/1.png": found}
    assert list(splits_of(listing).values()) == ["train", "eval"]


def test_keypoints_beside_captions_are_boxes_and_what_is_not_read_is_told(tmp_path):
    draw_images(tmp_path / "val2017", ["0.png"])
    images = [{"id": 0, "file_name": "0.png"}]
    pose = {"image_id": 0, "category_id": 1, "bbox": [2, 3, 10, 8], "keypoints": [1, 2, 2]}
    people = {"images": images, "annotations": [pose], "categories": [{"id": 1, "name": "person"}]}
    captions = {"images": images, "annotations": [{"image_id": 0, "caption": "a man"}]}
    (tmp_path / "annotations").mkdir()
    for name, content in (("person_keypoints", people), ("captions", captions)):
        (tmp_path / f"annotations/{name}_val2017.json").write_text(json.dumps(content))
    listing = understand(tmp_path)
    assert boxes_of(listing) == {"val2017/0.png": [("person", 2, 3, 10, 8)]}
    told = "person_keypoints_val2017.json: keypoints of objects are not read"
    assert listing.noticed == (told,)


def _write_panoptic(folder, split, categories, segments, file="panoptic_{}.json"):
    """Three images, the last without segments; segment 263 is a square, 9 a stripe, 0 the rest."""
    (folder / split).mkdir(parents=True)
    for number in range(3):
        pixels = draw(number + 10 * len(split), height=30, width=40)
        (folder / split / f"{number}.png").write_bytes(encode_png(pixels))
    colors = np.zeros((30, 40, 3), np.uint8)
    colors[5:20, 5:20], colors[20:] = (7, 1, 0), (9, 0, 0)
    path = folder / "annotations" / f"panoptic_{split}" / "0.png"
    path.parent.mkdir(parents=True)
    for number in range(2):
        path.with_name(f"{number}.png").write_bytes(encode_png(colors))
    content = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in range(3)],
        "annotations": [
            {
                "image_id": number,
                "file_name": f"{number}.png",
                "segments_info": [{"id": i, "category_id": c} for i, c in segments],
            }
            for number in range(2)
        ],
        "categories": [{"id": id_, "name": name} for name, id_ in categories.items()],
    }
    (folder / "annotations" / file.format(split)).write_text(json.dumps(content))


_CATEGORIES = {"sky": 300, "cat": 0}


def test_panoptic_segments_are_masks_of_categories(tmp_path):
    root = tmp_path / "data"
    for split in ("train", "val"):
        _write_panoptic(root, split, _CATEGORIES, [(263, 0), (9, 300)])
    listing = understand(root)
    assert listing.options.masks.classes == {"cat": (0,), "sky": (300,)}
    refs = list(listing.refs())
    assert [ref.path.split("/")[-2:] for ref in refs[:4:3]] == [
        ["train", "0.png"],
        ["val", "0.png"],
    ]
    assert [ref.mask is None for ref in refs] == [False, False, True] * 2
    read = cv2.imdecode(np.frombuffer(read_location(refs[0].mask, 10**6), np.uint8), -1)
    expected = np.full((30, 40), 65535)
    expected[5:20, 5:20], expected[20:] = 0, 300
    np.testing.assert_array_equal(read, expected)
    manifest = ingest(root, tmp_path / "out", prepare={"encoding": "png"}, max_bad_fraction=0.5)
    assert {name: split.mask_pixels for name, split in manifest.splits.items()} == {
        name: {"0": 2 * 225, "1": 2 * 400, "255": 2 * 575} for name in ("train", "eval")
    }
    assert manifest.books.quarantine_reasons == {"no_mask": 2}


def test_a_segment_that_is_not_listed_is_quarantined(tmp_path):
    _write_panoptic(tmp_path / "data", "train", _CATEGORIES, [(263, 0)])
    file = tmp_path / "data" / "annotations" / "panoptic_train.json"
    ref = next(iter(understand(file).refs()))
    with pytest.raises(BadImage, match=r"has the segment 9, which its annotation does not list"):
        read_location(ref.mask, 10**6)


@pytest.mark.parametrize(
    ("categories", "segments", "message"),
    [
        ({"cat": 65535}, [], r"ids of categories must be whole numbers below 65,535, got 65535"),
        (_CATEGORIES, [(263, 7)], r"has an invalid segment, .*'category_id' of a category"),
    ],
)
def test_panoptic_files_that_are_wrong_are_refused(tmp_path, categories, segments, message):
    _write_panoptic(tmp_path, "train", categories, segments)
    with pytest.raises(UserError, match=message):
        understand(tmp_path / "annotations" / "panoptic_train.json")


def test_categories_that_differ_between_files_are_refused(tmp_path):
    _write_panoptic(tmp_path, "train", _CATEGORIES, [(263, 0), (9, 300)])
    _write_panoptic(tmp_path, "val", {"dog": 0}, [(263, 0), (9, 0)])
    with pytest.raises(UserError, match=r"the category 'dog' has the id 0, but another one in"):
        understand(tmp_path)


def test_labels_of_idx_files_have_the_characters_that_a_mapping_lists(tmp_path):
    for kind, header in (("images-idx3", (2051, 3, 6, 5)), ("labels-idx1", (2049, 3))):
        data = struct.pack(f">{len(header)}I", *header)
        data += bytes(range(90)) if len(header) > 2 else bytes([1, 26, 9])
        (tmp_path / f"emnist-letters-train-{kind}-ubyte").write_bytes(data)
    mapping = tmp_path / "emnist-letters-mapping.txt"
    mapping.write_text("1 65 97 \n26 90 122 \n")
    listing = understand(tmp_path)
    assert list(labels_of(listing).values()) == ["A", "Z", "9"]
    told = "emnist-letters-mapping.txt names the labels: 1 is 'A', 26 is 'Z', …"
    assert told in listing.options.understood[0]
    mapping.write_text("1 A\n")
    assert list(labels_of(understand(tmp_path)).values()) == ["1", "26", "9"]


def test_a_damaged_idx_file_is_named(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, 9, 6, 5) + b"x")
    problem = "train-images-idx3-ubyte has 17 bytes, but its dimensions say otherwise"
    with pytest.raises(UserError, match=problem):
        understand(tmp_path)


def test_masks_by_run_lengths(tmp_path):
    draw_images(tmp_path / "train", [f"{n}.png" for n in range(6)])
    rows = [
        ["ImageId", "ClassId", "EncodedPixels"],
        ["0.png", 1, "1 3 31 5"],
        ["0.png", 2, "61 30"],
    ]
    rows += [["1.png", 2, "1171 30"], ["2.png", 1, ""], *([f"{n}.png", 1, "5 1"] for n in (3, 4))]
    rows.append(["5.png", 1, "1200 2"])
    listing = understand(write_table(tmp_path / "train.csv", rows))
    assert listing.options.masks.classes == ("background", "1", "2")
    masks = [cv2.imdecode(np.frombuffer(read_location(ref.mask, 10**6), np.uint8), -1)
             for ref in list(listing.refs())[:3]]  # fmt: skip
    expected = np.zeros((3, 30, 40), np.uint8)
    expected[0, :3, 0], expected[0, :5, 1], expected[0, :, 2] = 1, 1, 2  # column by column
    expected[1, :, 39] = 2
    np.testing.assert_array_equal(masks, expected)
    manifest = ingest(tmp_path / "train.csv", tmp_path / "out", max_bad_fraction=0.5)
    assert manifest.books.quarantine_reasons == {"bad_mask": 1}


def test_a_column_that_joins_image_and_class_is_read_as_two(tmp_path):
    draw_images(tmp_path / "train_images", ["0.png", "1_a.png"])
    rows = [["0.png_1", "1 3"], ["0.png_2", "61 30"], ["1_a.png_1", ""], ["1_a.png", "5 1"]]
    rows = [["ImageId_ClassId", "EncodedPixels"], *rows]
    listing = understand(write_table(tmp_path / "train.csv", rows), max_bad_fraction=0.5)
    assert listing.options.understood[0] == (
        "train.csv: 'ImageId_ClassId' joins image and class by an underscore, and is read as "
        "'ImageId' and 'ClassId'"
    )
    assert listing.options.masks.classes == ("background", "1", "2")
    problem = "'1_a.png' does not join image and class, as 'ImageId_ClassId' does above"
    assert [(ref.path, ref.message) for ref in listing.refs()][1:] == [
        ("1_a.png", ""),
        ("train.csv:5", f"train.csv:5: {problem}"),
    ]
    labels = [["Image_Label", "x"], ["0.png_cat", 1], ["1_a.png_dog", 2]]
    listing = understand(write_table(tmp_path / "labels.csv", labels))
    assert labels_of(listing) == {"0.png": "cat", "1_a.png": "dog"}
    names = [["image_name", "label"], ["0.png", "cat_1"], ["1_a.png", "1.png_2"]]
    assert labels_of(understand(write_table(tmp_path / "n.csv", names)))["1_a.png"] == "1.png_2"


def test_run_lengths_of_gaps_are_refused_and_minus_one_is_no_object(tmp_path):
    draw_images(tmp_path / "train", ["0.png", "1.png"])
    rows = [["ImageId", " EncodedPixels"], ["0.png", "-1"], ["1.png", "31 30"]]
    listing = understand(write_table(tmp_path / "train.csv", rows))
    masks = [cv2.imdecode(np.frombuffer(read_location(ref.mask, 10**6), np.uint8), -1)
             for ref in listing.refs()]  # fmt: skip
    expected = np.zeros((2, 30, 40), np.uint8)
    expected[1, :, 1] = 1
    np.testing.assert_array_equal(masks, expected)
    rows.append(["1.png", "500 30 25 30"])
    with pytest.raises(UserError, match=r"do not begin one after the other, as in '500 30 25 30'"):
        understand(write_table(tmp_path / "gaps.csv", rows))
    assert understand(tmp_path / "gaps.csv", columns={"mask": None}).options.masks is None


def test_colours_of_a_label_map_are_the_classes(tmp_path):
    draw_images(tmp_path / "JPEGImages", [f"{n}.png" for n in range(6)])
    mask = np.zeros((30, 40, 3), np.uint8)
    mask[5:20, 5:20], mask[25:, :] = (48, 112, 32), (176, 112, 32)
    (tmp_path / "SegmentationClass").mkdir()
    for number in range(6):
        (tmp_path / "SegmentationClass" / f"{number}.png").write_bytes(encode_png(mask))
    with pytest.raises(UserError, match=r"holds images and their masks"):
        understand(tmp_path)
    text = (
        "# label:color_rgb:parts:actions\nbackground:0,0,0::\nCat:48,112,32::\nDog:176,112,32::\n"
    )
    (tmp_path / "labelmap.txt").write_text(text)
    listing = understand(tmp_path)
    assert listing.options.masks.classes == {
        "background": "#000000", "Cat": "#307020", "Dog": "#b07020"
    }  # fmt: skip
    manifest = ingest(tmp_path, tmp_path.parent / "out", prepare={"encoding": "png"})
    pixels = [split.mask_pixels for split in manifest.splits.values()]
    assert sum(own["1"] for own in pixels) == 6 * 225
    assert sum(own["2"] for own in pixels) == 6 * 200


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("labelmap.txt", "# a:b:c:d\na:0,0,0::\nb:1,2,3::\nc:0,0,0::\n",
         r"labelmap.txt:4: 'c' has the colour #000000, as 'a' has, so masks do not tell"),
        ("class_dict.csv", "name,r,g,b\na,0,0,0\nb,1,2\n",
         r"class_dict.csv:3: 'b,1,2' must be a class and its colour: red, green"),
        ("label_colors.txt", "0 0 0 a\n1 2 300 b\n", r"label_colors.txt:2: '1 2 300 b' must be a"),
        ("label_colors.txt", "0 0 0 a\n1 2 3 a\n", r"label_colors.txt:2: 'a' is named twice"),
    ],
)  # fmt: skip
def test_a_label_map_that_is_wrong_is_refused_with_its_line(tmp_path, name, text, message):
    draw_images(tmp_path, [f"{folder}/{n}.png" for folder in ("images", "masks") for n in range(4)])
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=f"{message}.*ingest.masks"):
        understand(tmp_path)


def _draw_ids(folder, *levels):
    draw_images(folder, [f"images/{n}.png" for n in range(4)])
    (folder / "masks").mkdir()
    mask = np.repeat(np.array(levels, np.uint8), 1200 // len(levels)).reshape(30, 40)
    for number in range(4):
        (folder / f"masks/{number}.png").write_bytes(encode_png(mask))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("labelmap.csv", "id,name\n0,sea\n3,cat\n9,dog\n", {"sea": 0, "cat": 3, "dog": 9}),
        ("a/any.csv", "name;id\nsea;0\ncat;3\n", {"sea": 0, "cat": 3}),
        ("info.txt", "Idx\tRatio\tName\n0\t1\tsea\n3\t1\tcat, tom\n", {"sea": 0, "cat, tom": 3}),
        ("labels.txt", "0: sea\n3 cat\n", {"sea": 0, "cat": 3}),
        ("labels.txt", "__ignore__\nsea\nsky\nfog\ncat", {"sea": 0, "sky": 1, "fog": 2, "cat": 3}),
        ("classes.txt", "_background_\na\nb\ncat\ne\n", {"cat": 3, "e": 4}),
        ("classes.txt", "a\nb\nc\nd\ne\n", None),
        ("classes.txt", "a\nb\ncat\n", None),
        ("class_dict.csv", "n,r,g,b\nsea,0,0,0\na,1,0,0\nb,9,0,0\ncat,8,8,8", {"sea": 0, "cat": 3}),
    ],
)  # fmt: skip
def test_ids_of_masks_take_the_names_that_a_file_plainly_gives(tmp_path, name, text, expected):
    _draw_ids(tmp_path, 0, 3, 255)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    config = tmp_path / "c.yaml"
    if expected is None:
        with pytest.raises(UserError, match=r"holds images and their masks"):
            understand(tmp_path)
    else:
        assert understand(tmp_path).options.masks.classes.items() >= expected.items()
    written = CliRunner().invoke(cli, ["init", str(tmp_path), "--yes", "--output", str(config)])
    assert written.exit_code == 0, written.output
    classes = yaml.safe_load(config.read_text())["ingest"]["masks"]["classes"]
    assert (classes or {}).items() >= (expected or {}).items()
    assert (classes is None) == (expected is None)


def _write_names(folder, *names):
    lines = [f"{number}\t.2\t{name}\n" for number, name in enumerate(names, 1)]
    (folder / "objectInfo150.txt").write_text("".join(["Idx\tRatio\tName\n", *lines]))


def test_zero_has_a_name_of_its_own_where_ids_begin_with_one(tmp_path):
    _draw_ids(tmp_path, 0, 1, 3)
    _write_names(tmp_path, "wall", "sky", "tree")
    options = understand(tmp_path).options
    assert options.masks.classes == {"background": 0, "wall": 1, "sky": 2, "tree": 3}
    assert "0, which it does not name, is 'background'" in options.understood[0]


def test_where_masks_may_be_counted_from_zero_names_are_asked_about(tmp_path):
    _draw_ids(tmp_path, 0, 1, 2, 3)
    _write_names(tmp_path, "wall", "sky", "tree", "sea")
    with pytest.raises(UserError, match=r"but masks show 4 values: 0, 1, 2, 3; say which is which"):
        understand(tmp_path)


def test_names_that_are_of_other_ids_than_masks_show_are_told(tmp_path):
    _draw_ids(tmp_path, 0, 1, 2)
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    told = (
        'labels.txt names 2 classes, {"cat": 0, "dog": 1}, but masks show 3 values: 0, 1, 2; say '
    )
    with pytest.raises(UserError) as caught:
        understand(tmp_path)
    assert f"{told}which is which by ingest.masks.classes" in str(caught.value)


def test_a_file_called_as_label_maps_are_that_has_no_colour_is_none(tmp_path):
    draw_images(tmp_path, [f"{folder}/{n}.png" for folder in ("images", "masks") for n in range(4)])
    (tmp_path / "labelmap.txt").write_text("item { name: 'cat' }\n")
    with pytest.raises(UserError, match=r"holds images and their masks"):
        understand(tmp_path)


def test_run_lengths_of_classes_that_are_not_named_are_counted(tmp_path):
    draw_images(tmp_path, ["0.png", "1.png"])
    rows = [["image", "kind", "runs"], ["0.png", "cat", "1 3"], ["0.png", "dog", "5 2"]]
    rows += [["1.png", "dog", "1 3"], ["1.png", "cow", ""]]
    table = write_table(tmp_path / "t.csv", rows)
    runs = {"pixels": "runs", "name": "kind"}
    some = understand(table, run_lengths=runs | {"classes": ["cat"]})
    assert some.noticed == (
        "run lengths of classes that ingest.run_lengths.classes does not name are left out: "
        "dog (2)",
    )
    assert some.options.masks.classes == ("background", "cat")
    listing = understand(table, run_lengths=runs)
    assert listing.options.masks.classes == ("background", "cat", "cow", "dog")
    masks = [cv2.imdecode(np.frombuffer(read_location(ref.mask, 10**6), np.uint8), -1)
             for ref in listing.refs()]  # fmt: skip
    assert [np.bincount(mask.ravel()).tolist() for mask in masks] == [
        [1195, 3, 0, 2], [1197, 0, 0, 3]
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"names 'rle', but .* has no such column; known: im"):
        understand(table, run_lengths={"pixels": "rle"})


def test_a_folder_of_these_kinds_is_told_quickly_from_others(tmp_path):
    draw_images(tmp_path / "cat", ["0.png"])
    (tmp_path / "cat" / "notes.txt").write_text("a cat\n")
    (tmp_path / "about.xml").write_text("<about/>")
    (tmp_path / "config.yaml").write_text("names: 3\n")
    (tmp_path / "data.json").write_text("{}")
    assert kind_of(str(tmp_path)).name == "a folder"


# CUB-200's lists of images, classes, splits and boxes.
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
        ({"image_class_labels": ["1 1", "2 2", "4 1"]}, "'3': image_class_labels.txt has no line"),
        ({"classes": ["1 a"]}, "the image '2': classes.txt has no line for '2'"),
        ({"train_test_split": ["1 1", "2 0", "3 x", "4 1"]}, "gives it 'x', but it must be 1"),
    ],
)
def test_an_image_that_lists_do_not_fit_is_one_row_that_says_so(tmp_path, lists, message):
    listing = understand(write_lists(tmp_path, **lists), max_bad_fraction=1)
    assert message in next(ref.message for ref in listing.refs() if ref.problem)


@pytest.mark.parametrize(
    ("lines", "message"),
    [(["1 a.png", "2"], "images.txt has no value for '2'"), (["1 a.png"] * 2, "number '1' twice")],
)
def test_lists_that_are_none_are_refused(tmp_path, lines, message):
    with pytest.raises(UserError, match=message):
        understand(write_lists(tmp_path, images=lines))
