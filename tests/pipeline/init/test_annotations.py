import pytest

from image_pipeline.components.sources.folder import Folder
from image_pipeline.init.annotations import explain_boxes, find_coco

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (
            ["annotations/instances_train2017.json", "annotations/instances_val2017.json"],
            "annotations/instances_{SPLIT}2017.json",
        ),
        (["annotations/instances_train2017.json"], "annotations/instances_train2017.json"),
        (["train.coco.json", "valid.coco.json", "a.jpg"], "{SPLIT}.coco.json"),
        (["instances_val.json", "instances_test.json"], "instances_test.json"),
        (["x/annotations.json"], "x/annotations.json"),
        (
            ["test/_annotations.coco.json", "train/_annotations.coco.json"],
            "train/_annotations.coco.json",
        ),
        (["captions_train2017.json", "config.json", "a.jpg"], None),
    ],
)
def test_coco_files_are_told_by_their_names(paths, found):
    assert find_coco([*paths, "train2017/000.jpg"]) == found


def _write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    source = Folder(str(folder))
    return source, {ref.path: ref for ref in source.list()}


def test_yolos_labels_are_explained(tmp_path):
    files = {"images__a_dot_jpg": "", "images__b_dot_jpg": "", "labels__a_dot_txt": ""}
    found = _write(tmp_path, **files, labels__b_dot_txt="0 0.5 0.5 1e-1 0.25\n")
    assert f"{str(tmp_path)!r} has boxes as YOLO has them, such as 'labels/" in explain_boxes(
        *found
    )


def test_pascal_vocs_annotations_are_explained(tmp_path):
    files = {"JPEGImages__a_dot_jpg": "", "Annotations__a_dot_xml": "<annotation></annotation>"}
    said = explain_boxes(*_write(tmp_path, **files))
    assert "as Pascal VOC has them, such as 'Annotations/a.xml'" in said
    assert "docs/boxes.md" in said


def test_captions_and_a_few_notes_are_no_boxes(tmp_path):
    captions = _write(tmp_path, a_dot_jpg="", a_dot_txt="a dog at 0.5 of the way")
    assert explain_boxes(*captions) is None
    few = _write(tmp_path, b_dot_jpg="", c_dot_jpg="", a_dot_txt="0 0.5 0.5 0.1 0.1")
    assert explain_boxes(*few) is None
