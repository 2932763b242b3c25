"""Annotations as messy as people have them: names, places, damage; and what is then refused."""

import gzip
import io
import json
import struct
import tarfile

import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.source_kinds import kind_of
from tests.drawings import draw, encode_png
from tests.layouts.drawn import boxes_of, draw_images, labels_of, splits_of, understand

pytestmark = pytest.mark.unit


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def write_xml(path, name, *objects, size=(40, 30)):
    each = "".join(
        f"<object><name>{called}</name><difficult>{difficult}</difficult><bndbox><xmin>{a}</xmin>"
        f"<ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
        for called, difficult, a, b, c, d in objects
    )
    sides = f"<size><width>{size[0]}</width><height>{size[1]}</height></size>"
    write(path, f"<annotation><filename>{name}</filename>{sides}{each}</annotation>")


def problems_of(listing):
    return [ref.message for ref in listing.refs() if ref.problem]


def write_voc(folder, count=4):
    draw_images(folder / "JPEGImages", [f"{n}.jpg" for n in range(count)])
    for n in range(count):
        write_xml(folder / f"Annotations/{n}.xml", f"{n}.jpg", ("cat", n % 2, 3, 4, 20, 30))


@pytest.mark.parametrize(
    ("images", "xmls"),
    [
        *(
            ("", ""),
            ("images", "annotations"),
            ("images", "annotations/xmls"),
            ("images", "labels"),
        ),
        *(("images", "annots"), ("BCCD/JPEGImages", "BCCD/Annotations"), ("a/b/images", "a/b/x")),
    ],
)
def test_voc_is_told_wherever_its_files_lie(tmp_path, images, xmls):
    draw_images(tmp_path / images, ["a.png", "b.png"])
    draw_images(tmp_path, ["scripts/plot.png"])
    for name in "ab":
        write_xml(tmp_path / xmls / f"{name}.xml", f"C:\\x\\{name}.png", ("cat", 0, 1, 1, 9, 9))
    found = understand(tmp_path)
    folder = f"{images}/" if images else ""
    assert boxes_of(found) == {f"{folder}{name}.png": [("cat", 0, 0, 9, 9)] for name in "ab"}
    told = "Pascal VOC: images without annotations are not read: 1"
    assert found.noticed == (told,)


def test_voc_a_split(tmp_path):
    for split in ("train", "valid", "test"):
        draw_images(tmp_path / split, ["a.png"], size=(40, 30))
        write_xml(tmp_path / split / "a.xml", "a.png", ("cat", 0, 1, 1, 9, 9))
    assert splits_of(understand(tmp_path)) == {
        "train/a.png": "train", "valid/a.png": "eval", "test/a.png": "test"
    }  # fmt: skip


def test_the_image_is_called_as_the_xml_file_is(tmp_path):
    write_voc(tmp_path)
    write_xml(tmp_path / "Annotations/1.xml", "0.jpg", ("dog", 0, 1, 1, 9, 9))
    found = understand(tmp_path)
    assert boxes_of(found)["JPEGImages/1.jpg"] == [("dog", 0, 0, 9, 9)]
    assert any(
        "1 XML files name an image that is called otherwise" in each for each in found.noticed
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<annotation>", "is not XML"),
        (b"\xff\xfe\0", "is not XML"),
        ("", "is not XML"),
        ("<a/>", "holds <a>"),
        ("<annotation><filename>9.jpg</filename></annotation>", "no file"),
        ("<annotation><object><name>x</name></object></annotation>", "are not four numbers"),
        ("<annotation><object/></annotation>", "are not four numbers"),
        (
            "<annotation><object><name>x</name><bndbox><xmin>two</xmin><ymin>2</ymin><xmax>9</xmax>"
            "<ymax>9</ymax></bndbox></object></annotation>",
            "has a box of ['two', '2', '9', '9'], which are not four numbers",
        ),
        ('<?xml version="1.0" encoding="gb2312"?><annotation/>', "is not XML"),
        (
            '<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><annotation>&d;</annotation>',
            "declares entities",
        ),
        ("<annotation>" + "<b>" * 100_000, "is not XML"),
    ],
)
def test_a_bad_xml_file_is_one_quarantined_row(tmp_path, text, why):
    write_voc(tmp_path)
    name = "8" if why == "no file" else "1"
    write(tmp_path / f"Annotations/{name}.xml", text)
    found = understand(tmp_path)
    assert found.usable == (4 if name == "8" else 3)
    (problem,) = problems_of(found)
    assert ("Annotations/9.jpg" if why == "no file" else f"Annotations/{name}.xml") in problem
    assert why in problem


def test_a_list_that_names_what_is_not_there_is_in_the_books(tmp_path):
    write_voc(tmp_path)
    write(tmp_path / "ImageSets/Main/train.txt", "0\n1\n2\n99\n")
    write(tmp_path / "ImageSets/Main/val.txt", "3\n")
    assert "names '99': no such XML file" in problems_of(understand(tmp_path))[0]


def write_yolo(folder, said="names: [cat, dog]\ntrain: ../train/images\nval: ../valid/images\n"):
    for split, numbers in (("train", (0, 1, 2)), ("valid", (3,))):
        draw_images(folder / split / "images", [f"{n}.png" for n in numbers])
    write(folder / "train/labels/0.txt", "1 0.5 0.5 0.25 0.5\n0 0.25 0.25 0.125 0.125 0.9\n")
    write(folder / "train/labels/1.txt", "")
    write(folder / "valid/labels/3.txt", "0 0.1 0.2 0.5 0.2 0.5 0.6\n")
    if said:
        write(folder / "data.yaml", said)


_CAT = ("cat", 0.25, 0.25, 0.125, 0.125)


def test_yolo_has_images_without_a_file_confidences_and_polygons(tmp_path):
    write_yolo(tmp_path)
    found = understand(tmp_path)
    boxes = boxes_of(found)
    assert boxes["train/images/0.png"] == [("dog", 0.5, 0.5, 0.25, 0.5), _CAT]
    assert boxes["train/images/1.png"] == boxes["train/images/2.png"] == []
    assert boxes["valid/images/3.png"] == [("cat", *map(pytest.approx, (0.3, 0.4, 0.4, 0.4)))]
    assert found.options.boxes.format == "rel_center_xywh"
    assert found.noticed == ("YOLO: 1 image has no file of labels, and so no boxes",)
    assert "; 1 lines have outlines, of which the box is taken" in found.options.understood[0]
    assert splits_of(found)["valid/images/3.png"] == "eval"


@pytest.mark.parametrize(
    "said",
    [
        "names: {0: cat, 1: dog}\npath: .\ntrain: train/images\nval: valid/images",
        "names: {1: dog, 0: cat}\ntrain: /a/data/train/images\nval: /a/data/valid/images",
        "names:\n- cat\n- dog\nnc: 2\ntrain: [train/images]\nval:\n- valid/images",
        "names: [cat, dog]\ntrain: train.txt\nval: valid.txt",
        "names: [cat, dog]\nnc: 2",
        "names: [cat, dog]\ntrain: train/\nval: valid/",
    ],
)
def test_yolo_finds_what_its_file_names(tmp_path, said):
    write_yolo(tmp_path, said)
    write(tmp_path / "train.txt", "".join(f"./train/images/{n}.png\n" for n in range(3)))
    write(tmp_path / "valid.txt", "/home/me/valid/images/3.png\n")
    found = understand(tmp_path)
    assert boxes_of(found)["train/images/0.png"][1] == _CAT
    assert sorted(splits_of(found).values()) == ["eval", "train", "train", "train"]


def test_yolo_of_folders_of_splits_below_images(tmp_path):
    for split in ("train", "val"):
        draw_images(tmp_path / "images" / split, ["a.png"])
        write(tmp_path / "labels" / split / "a.txt", "0 0.25 0.25 0.125 0.125")
    write(tmp_path / "coco.yaml", "names: {0: cat}\ntrain: images/train\nval: images/val\n")
    assert boxes_of(understand(tmp_path))["images/val/a.png"] == [_CAT]


@pytest.mark.parametrize("names", ["classes.txt", "obj.names"])
def test_yolo_with_classes_and_labels_beside_images(tmp_path, names):
    draw_images(tmp_path, ["b.png", "c.png"])
    write(tmp_path / "README.txt", "Pictures of cats.\n")
    write(tmp_path / "b.txt", "0 0.25 0.25 0.125 0.125\n")
    with pytest.raises(UserError, match="nothing names their classes; add"):
        understand(tmp_path)
    write(tmp_path / names, "cat\n")
    assert boxes_of(understand(tmp_path)) == {"b.png": [_CAT], "c.png": []}
    write(tmp_path / "more/classes.txt", "cow\n")
    with pytest.raises(UserError, match="name different classes, so these may be two data sets"):
        understand(tmp_path)


def test_yolo_of_darknet_has_its_lists_below_another_folder(tmp_path):
    draw_images(tmp_path / "obj_train_data", ["a.png", "b.png"])
    for name in "ab":
        write(tmp_path / f"obj_train_data/{name}.txt", "0 0.25 0.25 0.125 0.125\n")
        write(tmp_path / f"{name}.txt", f"data/obj_train_data/{name}.png\n")
    write(tmp_path / "obj.data", "classes= 1\ntrain = data/a.txt\nvalid = data/b.txt\nnames = x\n")
    write(tmp_path / "obj.names", "cat\n")
    found = understand(tmp_path)
    assert boxes_of(found) == {f"obj_train_data/{name}.png": [_CAT] for name in "ab"}
    assert list(splits_of(found).values()) == ["train", "eval"]


def test_yolo_of_poses_takes_boxes_where_keypoints_are_told(tmp_path):
    said = "names: [cat, dog]\nkpt_shape: [2, 2]\n"
    write_yolo(tmp_path, said)
    write(tmp_path / "train/labels/0.txt", "0 0.25 0.25 0.125 0.125 0.2 0.2 0.3 0.3\n")
    found = understand(tmp_path)
    assert boxes_of(found)["train/images/0.png"] == [_CAT]
    assert (
        "; 1 lines have keypoints, of which the box is taken; 1 lines have outlines"
        in (found.options.understood[0])
    )


def test_yolo_without_any_labels_is_refused(tmp_path):
    draw_images(tmp_path / "train/images", ["a.png"])
    write(tmp_path / "train/labelTxt/a.txt", "1 1 9 1 9 9 1 9 cat 0\n")
    write(tmp_path / "data.yaml", "names: [cat]")
    with pytest.raises(UserError, match=r"that of 'a' would be 'train/labels/a.txt', with lines"):
        understand(tmp_path)


_VIA = '{"a.png1": {"filename": "a.png", "regions": []}}'


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("labels_2/{}.txt", "Car 0 0 1 2 3 4 5", "2 files such as labels_2/a.txt, labels_2/b.txt"),
        ("{}.json", '{"annotations": [{"bbox": [1, 2, 3, 4]}]}', "2 files such as a.json, b.json"),
        ("gt/gt_{}.txt", "1,2,3,4,x", "2 files such as gt/gt_a.txt, gt/gt_b.txt are named like"),
        (
            "via.json",
            _VIA,
            "via.json: may say more about the images, in a format that is not read; "
            "export it as COCO",
        ),
        (
            "gt/gt.txt",
            "1,1,2,3,4,5",
            "gt/gt.txt: may say more about the images, in a format that is not read",
        ),
        (
            "all.xml",
            "<annotations><track/></annotations>",
            "all.xml: may say more about the images, in a form",
        ),
        ("setid.mat", "MATLAB 5.0 MAT-file", "setid.mat: may say more about the images, in a form"),
        ("gt/GT_{}.mat", "MATLAB 5.0 MAT-file", "2 files such as gt/GT_a.mat, gt/GT_b.mat are"),
        ("labels.txt", "a.png cat\nb.png dog\n", "for what labels.txt says, ingest"),
    ],
)
def test_annotations_that_nothing_reads_are_never_passed_over(tmp_path, name, text, why):
    draw_images(tmp_path / "images", ["a.png", "b.png"])
    for stem in "ab":
        write(tmp_path / name.format(stem), text)
    with pytest.raises(UserError) as caught:
        understand(tmp_path)
    assert why in str(caught.value) and "no labels, set ingest.label_pattern=null" in str(
        caught.value
    )
    assert understand(tmp_path, label_pattern=None).classes == {"": 2}


@pytest.mark.parametrize("below", ["train/annotations", "annotations/train"])
def test_coco_files_two_folders_down_are_found_and_read(tmp_path, below):
    draw_images(tmp_path / "images/train", ["a.png"])
    said = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}
    images, named = [{"id": 1, "file_name": "a.png"}], [{"id": 1, "name": "cat"}]
    file = {"images": images, "annotations": [said], "categories": named}
    write(tmp_path / below / "x.json", json.dumps(file))
    assert boxes_of(understand(tmp_path)) == {"images/train/a.png": [("cat", 1, 2, 3, 4)]}


@pytest.mark.parametrize("kind", ["texts", "files without ending"])
def test_classes_beside_which_texts_of_images_lie_are_asked_for(tmp_path, kind):
    draw_images(tmp_path, [f"{name}/{n}.png" for name in ("cat", "dog") for n in range(3)])
    write(tmp_path / "list.txt", "cat/0.png\n1\n2 3 4 5\n")
    write(tmp_path / "README", "of cats and dogs")
    said = understand(tmp_path).options.understood
    assert said == (
        "list.txt: may say more about the images, in a format that is not read; export it as COCO, "
        "Pascal VOC, YOLO, LabelMe or CreateML, or as a CSV with a row an image or a box",
    )
    ending = ".txt" if kind == "texts" else ""
    for n in range(3):
        write(tmp_path / f"of/cat/{n}{ending}", "a cat")
    pattern = "(?P<label>cat|dog)/.*"
    with pytest.raises(UserError, match=r"names alone, set 'ingest.label_pattern=\"\(\?P<label>"):
        understand(tmp_path)
    assert understand(tmp_path, label_pattern=pattern).classes == {"cat": 3, "dog": 3}


@pytest.mark.parametrize(
    ("name", "text"), [("bbx_gt.txt", "cat/0.png\n1\n2 3 4 5"), ("via.json", _VIA)]
)
def test_classes_beside_which_boxes_lie_are_asked_for(tmp_path, name, text):
    draw_images(tmp_path, [f"{folder}/{n}.png" for folder in ("cat", "dog") for n in range(3)])
    write(tmp_path / name, text.replace("a.png", "0.png"))
    with pytest.raises(UserError, match=rf"{name}: may say more .* for the classes of folders or"):
        understand(tmp_path)
    assert understand(tmp_path, label_pattern="(?P<label>[^/]+)/.*").classes == {"cat": 3, "dog": 3}


def test_texts_that_are_not_read_are_told_beside_tables(tmp_path):
    draw_images(tmp_path, ["images/a.png", "images/b.png"])
    write(tmp_path / "partition.txt", "a.png 0\nb.png 1\n")
    write(tmp_path / "attributes.txt", "of\na.png\nMale\nb.png\nYoung\n")
    with pytest.raises(
        UserError, match=r"partition.txt may; attributes.txt: may say more about the"
    ):
        understand(tmp_path)


def test_tables_are_offered_where_folders_are_no_classes(tmp_path):
    draw_images(tmp_path, ["images/a.png", "images/b.png", "test/c.png"])
    write(tmp_path / "data/legend.csv", "image,emotion\na.png,joy\n")
    with pytest.raises(UserError, match=r"hardly a class; and data/legend.csv may say more. Say w"):
        understand(tmp_path)


def test_json_that_is_no_table_is_not_offered(tmp_path):
    draw_images(tmp_path, [f"images/{name}/{n}.png" for name in ("cat", "dog") for n in range(3)])
    write(tmp_path / "meta/train.txt", "cat/0\ndog/0\n")
    write(tmp_path / "meta/train.json", '{"cat": ["cat/0"], "dog": ["dog/0"]}')
    (_, told) = understand(tmp_path).options.understood
    assert told.startswith("meta/train.txt: not read, for folders name the classes")


def test_names_of_splits_in_files_names_are_no_classes(tmp_path):
    draw_images(
        tmp_path, [f"faces/{name}_{n:05}.png" for name in ("train", "test") for n in (1, 2)]
    )
    assert understand(tmp_path, label_pattern="(?P<label>[^/]+)/.+").classes == {"faces": 4}


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("{}/_classes.csv", "{train,valid}/_classes.csv"),
        ("{}_labels.csv", "{train,valid}_labels.csv"),
    ],
)
def test_tables_of_one_a_split_are_given_as_one_pattern(tmp_path, name, pattern):
    for split in ("train", "valid"):
        draw_images(tmp_path / split, [f"{split}0.png", f"{split}1.png"])
        rows = "".join(f"{split}{n}.png,{n},1\n" for n in (0, 1))
        write(tmp_path / name.format(split), f"filename,cat,dog\n{rows}")
    with pytest.raises(UserError) as caught:
        understand(tmp_path)
    assert f"ingest '{tmp_path / pattern}'; for no labels" in str(caught.value)
    found = understand(tmp_path / pattern)
    assert splits_of(found) == {
        f"{folder}/{folder}{n}.png": split
        for folder, split in (("train", "train"), ("valid", "eval"))
        for n in (0, 1)
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("2 0.5 0.5 0.1 0.1", "train/labels/2.txt:1 is of the class 2, which has no name"),
        ("0 0.5 0.5 0.1", ":1 has 3 numbers"),
        ("cat 0.5 0.5 0.1 0.1", "which is not a box"),
        ("0 nan 0.5 0.1 0.1", "which is not a box"),
        ("0.5 0.5 0.5 0.1 0.1", "which is not a box"),
        (b"\xff\xfe\0\0", "which is not a box"),
        ("0 " + "0.5 " * 5_000 + "0.1", "5001 numbers"),
    ],
)
def test_a_bad_file_of_yolo_is_one_quarantined_row(tmp_path, line, why):
    write_yolo(tmp_path)
    write(tmp_path / "train/labels/2.txt", line)
    found = understand(tmp_path)
    assert found.usable == 3
    (problem,) = problems_of(found)
    assert "train/labels/2.txt" in problem and why in problem


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("names: [cat, dog]\nnc: 3", "nc is 3, but names has 2"),
        ("names: [cat, cat]\nnc: 2", "two classes are called 'cat'"),
        ("names: {a: cat}\nnc: 2", "must have whole numbers"),
        ("names: [[&a x, *a]]\nnc: 1", "must be texts"),
        ("names: [cat\nnc: 2", "nothing names their classes"),
        ("names: !!python/object/apply:os.system [x]\nnc: 2", "nothing names their classes"),
    ],
)
def test_a_bad_file_of_classes_is_refused(tmp_path, said, why):
    write_yolo(tmp_path, said)
    with pytest.raises(UserError, match=why):
        understand(tmp_path)


def test_captions_beside_images_are_no_yolo(tmp_path):
    draw_images(tmp_path / "images", ["a.png"])
    write(tmp_path / "labels/a.txt", "a red disc")
    assert kind_of(str(tmp_path)).name == "a folder"


def test_metadata_at_the_root_has_splits_in_its_paths(tmp_path):
    draw_images(tmp_path, ["train/a.png", "test/b.png"])
    lines = [
        {"image_file_name": f"{name}.png", "objects": {"bbox": [[4, 5, 9, 9]], "categories": [1]}}
        for name in ("train/a", "test/b")
    ]
    write(tmp_path / "metadata.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    found = understand(tmp_path)
    assert boxes_of(found) == {f"{n}.png": [("1", 4, 5, 9, 9)] for n in ("train/a", "test/b")}
    assert found.options.boxes.format == "xywh"
    assert splits_of(found) == {"train/a.png": "train", "test/b.png": "eval"}


def write_coco(path, names, **others):
    images = [
        {"id": n, "file_name": name, "width": 40, "height": 30} for n, name in enumerate(names)
    ]
    boxes = [
        {"id": n, "image_id": n, "category_id": 1, "bbox": [4, 5, 9, 9]} for n in range(len(names))
    ]
    categories = [{"id": 0, "name": "pets"}, {"id": 1, "name": "cat"}]
    found = {"images": images, "annotations": boxes, "categories": categories}
    write(path, json.dumps(found | others))


def test_coco_a_split_keeps_the_class_without_boxes(tmp_path):
    for split, names in (("train", ["a.png", "b.png"]), ("valid", ["c.png"]), ("test", ["d.png"])):
        draw_images(tmp_path / split, names)
        write_coco(tmp_path / split / "_annotations.coco.json", names)
    found = understand(tmp_path)
    assert found.options.boxes.classes == ("pets", "cat")
    assert boxes_of(found)["valid/c.png"] == [("cat", 4, 5, 9, 9)]
    assert sorted(splits_of(found).values()) == ["eval", "test", "train", "train"]


@pytest.mark.parametrize("below", ["{}2017", "images/{}2017", "{}2017/images"])
def test_coco_names_its_folders_by_splits_and_years(tmp_path, below):
    for split in ("train", "val"):
        draw_images(tmp_path / below.format(split), ["a.png"])
        write_coco(tmp_path / f"annotations/instances_{split}2017.json", ["a.png"])
        write(tmp_path / f"annotations/captions_{split}2017.json", "{}")
    assert splits_of(understand(tmp_path)) == {
        f"{below.format('train')}/a.png": "train",
        f"{below.format('val')}/a.png": "eval",
    }


def _write_categories(path, *categories):
    draw_images(path.parent / "train", ["a.png", "b.png"])
    said = [
        {"id": n, "image_id": image, "category_id": c} for n, (image, c) in enumerate(categories)
    ]
    write_coco(path, ["a.png", "b.png"], annotations=said)
    return path.parent


def test_coco_of_one_category_an_image_has_classes(tmp_path):
    found = understand(
        _write_categories(tmp_path / "train_annotations.json", (0, 1), (1, 0), (1, 0))
    )
    assert labels_of(found) == {"train/a.png": "cat", "train/b.png": "pets"}
    assert found.options.understood[0].startswith("COCO files: classes of all of them")


@pytest.mark.parametrize("others", [[(1, 0)], [(1, None)]], ids=["two", "none that is named"])
def test_coco_of_other_labels_names_the_way_out(tmp_path, others):
    folder = _write_categories(tmp_path / "train_annotations.json", (1, 1), *others)
    with pytest.raises(
        UserError,
        match=r"neither a bbox nor a segmentation.* for the image 1; .* CSV with the columns",
    ):
        understand(folder)


def test_coco_has_backslashes(tmp_path):
    draw_images(tmp_path / "images", ["a.png"])
    write_coco(tmp_path / "result.json", ["images\\a.png"])
    for images in (tmp_path, tmp_path / "result.json"):
        assert boxes_of(understand(images)) == {"images/a.png": [("cat", 4, 5, 9, 9)]}


def test_coco_files_of_no_annotations_are_left_out_beside_others(tmp_path):
    draw_images(tmp_path / "train", ["a.png"])
    draw_images(tmp_path / "test", ["b.png"])
    write_coco(tmp_path / "train_annotations.json", ["a.png"])
    listed = {"images": [{"id": 0, "file_name": "b.png"}], "categories": []}
    write(tmp_path / "test_information.json", json.dumps(listed))
    assert list(boxes_of(understand(tmp_path))) == ["train/a.png"]


def test_coco_names_images_by_their_addresses_alone(tmp_path):
    draw_images(tmp_path / "val2017", ["a.png"])
    url = "http://images.example.org/val2017/a.png"
    image = {"id": 0, "coco_url": url, "width": 40, "height": 30}
    write_coco(tmp_path / "annotations/lists_val.json", ["a.png"], images=[image])
    assert boxes_of(understand(tmp_path)) == {"val2017/a.png": [("cat", 4, 5, 9, 9)]}


def test_several_coco_files_are_refused(tmp_path):
    draw_images(tmp_path, ["a.png"])
    write_coco(tmp_path / "one.json", ["a.png"])
    write_coco(tmp_path / "two.json", ["a.png"])
    with pytest.raises(UserError, match=r"one\.json, two\.json"):
        understand(tmp_path)


def test_annotations_of_two_forms_are_refused(tmp_path):
    write_voc(tmp_path)
    write_coco(tmp_path / "coco.json", ["JPEGImages/0.jpg"])
    with pytest.raises(UserError, match="a folder of COCO files or a folder of Pascal VOC"):
        understand(tmp_path)
    assert understand(tmp_path / "coco.json").usable == 1


def write_idx(folder, split, count=4, packed=False, labels=None, dashes="-images-idx3-ubyte"):
    pixels = bytes(range(256)) * 4
    images = struct.pack(">IIII", 2051, count, 4, 6) + pixels[: count * 24]
    numbers = struct.pack(">II", 2049, count) + bytes(range(count)) if labels is None else labels
    for name, data in (
        (dashes, images),
        (dashes.replace("images", "labels").replace("3", "1"), numbers),
    ):
        write(folder / f"{split}{name}{'.gz' * packed}", gzip.compress(data) if packed else data)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dashes", ["-images-idx3-ubyte", "-images.idx3-ubyte"])
def test_idx_has_images_labels_and_splits(tmp_path, packed, dashes):
    write_idx(tmp_path, "train", packed=packed, dashes=dashes)
    write_idx(tmp_path, "t10k", 2, packed=packed, dashes=dashes)
    found = understand(tmp_path)
    assert [label for label in labels_of(found).values()] == ["0", "1", "2", "3", "0", "1"]
    assert list(splits_of(found).values()) == ["train"] * 4 + ["eval"] * 2
    ref = list(found.refs())[1]
    pixels = np.load(io.BytesIO(found.source.read(ref, ref.size_bytes)))
    assert (pixels.shape, pixels.tobytes()) == ((4, 6), bytes(range(24, 48)))


def test_idx_of_other_counts_or_several_sets_is_refused(tmp_path):
    write_idx(tmp_path / "a", "train", labels=struct.pack(">II", 2049, 3) + b"\0\1\2")
    with pytest.raises(UserError, match="has 3 labels, but there are 4 images"):
        understand(tmp_path / "a")
    write_idx(tmp_path / "b", "emnist-letters-train")
    write_idx(tmp_path / "b", "emnist-digits-train")
    with pytest.raises(UserError, match="several sets, emnist-digits, emnist-letters"):
        understand(tmp_path / "b")


def test_packed_idx_that_is_cut_off_is_refused(tmp_path):
    write_idx(tmp_path, "train", packed=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match="cannot be read"):
        understand(tmp_path)


def test_a_tar_of_dotted_keys_and_a_folder_of_such(tmp_path):
    with tarfile.open(tmp_path / "x-000.tar", "w") as tar:
        for number in range(4):
            image = encode_png(draw(number))
            for name, data in (("input.png", image), ("target.cls", b"%d" % (number % 2))):
                member = tarfile.TarInfo(f"s{number}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    for images in (tmp_path / "x-000.tar", tmp_path):
        assert list(labels_of(understand(images)).values()) == ["0", "1", "0", "1"]


def test_a_folder_that_has_nothing_but_one_folder_is_that_folder(tmp_path):
    write_voc(tmp_path / "archive/VOCdevkit/VOC2007")
    sets = tmp_path / "archive/VOCdevkit/VOC2007/ImageSets/Main"
    write(sets / "trainval.txt", "0.jpg\n1 1\n2\n")
    write(sets / "test.txt", "3\n")
    write(tmp_path / "archive/README.md", "VOC")
    found = understand(tmp_path)
    assert list(boxes_of(found).values()) == [[("cat", 2, 3, 20, 30)]] * 4
    assert list(splits_of(found).values()) == ["train", "train", "train", "eval"]


def test_an_image_that_is_added_is_found_the_next_time(tmp_path):
    write_voc(tmp_path, 3)
    assert understand(tmp_path).usable == 3
    write_voc(tmp_path, 4)
    assert understand(tmp_path).usable == 4


def test_idx_that_is_there_unpacked_too_is_read_once(tmp_path):
    write_idx(tmp_path, "train")
    write_idx(tmp_path, "train", packed=True)
    assert understand(tmp_path).usable == 4
