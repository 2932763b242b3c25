"""What people who tried to lose a meaning did lose once, each as small as shows it."""

import json
import os
import shutil

import cv2
import numpy as np
import pytest
from pydicom.data import get_testdata_file

from image_pipeline.api import ingest
from image_pipeline.components.errors import UserError
from tests.layouts.drawn import boxes_of, draw_images, labels_of, splits_of, understand, write_table
from tests.layouts.test_messy_annotations import problems_of, write, write_voc, write_xml

pytestmark = pytest.mark.unit


def _deny(monkeypatch, path):
    """What a folder or list of somebody else's is, also to who may read everything."""
    scandir, opened = os.scandir, open

    def list_folder(folder="."):
        if os.path.samefile(folder, path):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    def read(name, *arguments, **keywords):
        if isinstance(name, str | os.PathLike) and os.path.realpath(name) == os.path.realpath(path):
            raise PermissionError(13, "Permission denied")
        return opened(name, *arguments, **keywords)

    monkeypatch.setattr(os, "scandir", list_folder)
    monkeypatch.setattr("builtins.open", read)


@pytest.mark.parametrize(
    ("denied", "message"),
    [
        ("ImageSets/Main", r"Cannot list the folder '.*Main': Permission denied"),
        ("ImageSets/Main/val.txt", r"Cannot read the list '.*val.txt': Permission denied"),
    ],
)
def test_lists_of_splits_that_cannot_be_read_are_not_left_out(
    tmp_path, monkeypatch, denied, message
):
    write_voc(tmp_path)
    write(tmp_path / "ImageSets/Main/train.txt", "0\n1\n")
    write(tmp_path / "ImageSets/Main/val.txt", "2\n3\n")
    _deny(monkeypatch, tmp_path / denied)
    with pytest.raises(UserError, match=message):
        list(understand(tmp_path).refs())


def test_of_two_images_of_one_name_the_annotation_s_own_is_taken(tmp_path):
    draw_images(tmp_path, ["0.jpg", "0.png", "1.jpg"])
    write_xml(tmp_path / "0.xml", "0.jpg", ("cat", 0, 3, 4, 20, 30))
    write_xml(tmp_path / "1.xml", "elsewhere.jpg", ("cat", 0, 3, 4, 20, 30))
    assert sorted(boxes_of(understand(tmp_path))) == ["0.jpg", "1.jpg"]


@pytest.mark.parametrize(
    ("left", "box"), [("nan", None), ("-50", (-50, 3, 20, 30)), ("0", (0, 3, 20, 30))]
)
def test_corners_of_voc_that_are_no_numbers_or_outside_are_told(tmp_path, left, box):
    write_voc(tmp_path)
    write_xml(tmp_path / "Annotations/0.xml", "0.jpg", ("cat", 0, left, 4, 20, 30))
    found = understand(tmp_path)
    if box is None:
        assert "which are not four numbers" in problems_of(found)[0]
    else:
        assert boxes_of(found)["JPEGImages/0.jpg"] == [("cat", *box)]


def test_a_category_that_coco_does_not_list_is_no_class(tmp_path):
    draw_images(tmp_path, ["0.PNG"])
    box = {"image_id": 0, "bbox": [1, 2, 3, 4]}
    content = {
        "images": [{"id": 0, "file_name": "0.png", "width": 40, "height": 30}],
        "annotations": [box | {"id": n, "category_id": n} for n in (1, 77)],
        "categories": [{"id": 1, "name": "cat"}],
    }
    write(tmp_path / "instances.json", json.dumps(content))
    found = understand(tmp_path)
    assert found.options.boxes.classes == ("cat",)
    assert len(boxes_of(found)["0.PNG"]) == 2  # The image, whose name is in other letters.


def _write_runs(folder, rows):
    draw_images(folder / "a", [f"{n}.png" for n in range(2)])
    draw_images(folder / "b", [f"{n}.png" for n in range(2)])
    return write_table(folder / "runs.csv", rows)


def test_one_bad_run_length_is_its_row_s_problem_alone(tmp_path):
    cells = ["1 3", "abc", "5 2", "7 1"]
    paths = ["a/0.png", "a/1.png", "b/0.png", "b/1.png"]
    rows = [["ImageId", "EncodedPixels"], *zip(paths, cells, strict=True)]
    found = understand(_write_runs(tmp_path, rows))
    assert found.options.masks.classes == ("background", "object")
    assert set(labels_of(found).values()) == {""}


@pytest.mark.parametrize("number", [254, 255])
def test_more_classes_of_run_lengths_than_a_mask_has_levels_are_refused(tmp_path, number):
    rows = [[f"{'ab'[n % 2]}/{n % 4 // 2}.png", "1 3", f"c{n}"] for n in range(number)]
    table = _write_runs(tmp_path, [["ImageId", "EncodedPixels", "ClassId"], *rows])
    if number < 255:
        assert len(understand(table).options.masks.classes) == 255
    else:
        with pytest.raises(UserError, match=r"masks of 256 classes, but 255 is the most"):
            understand(table)


def test_a_class_of_run_lengths_that_is_the_background_is_it(tmp_path):
    rows = [["a/0.png", "1 3", "background"], ["a/1.png", "1 3", "car"]]
    table = _write_runs(tmp_path, [["ImageId", "EncodedPixels", "ClassId"], *rows])
    assert understand(table).options.masks.classes == ("background", "car")


def test_alpha_is_no_value_that_fills_16_bits(tmp_path):
    (tmp_path / "a").mkdir()
    for number in range(2):
        pixels = np.full((8, 8, 4), 4095, np.uint16)
        pixels[..., 3] = 65535
        cv2.imwrite(str(tmp_path / "a" / f"{number}.png"), pixels)
    (told,) = [each for each in understand(tmp_path).noticed if "16 bits" in each]
    assert "up to 4,095" in told and "17 of 256 levels" in told


def test_levels_that_dicom_without_a_window_leaves_are_told(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("CT_small.dcm", "MR_small.dcm"):  # The latter has a window.
        shutil.copy(get_testdata_file(name), tmp_path / "a" / name)
    (told,) = [each for each in understand(tmp_path).noticed if "DICOM" in each]
    assert told.startswith("1 of 2 DICOM files that were looked at say no window")
    assert "9 of these 256 levels" in told
    keeping = {"dtype": "float32", "encoding": "raw"}
    assert not understand(tmp_path, prepare=keeping).noticed


@pytest.mark.parametrize(
    ("values", "splits", "expected"),
    [
        (["TRAIN", "TEST", "UNASSIGNED"], {}, ["train", "eval", None]),
        (["UNASSIGNED"] * 3, {"train": 0.5, "eval": 0.5}, [None] * 3),
        (["TRAIN"] * 3, {"train": 1.0}, ["train"] * 3),
    ],
)
def test_unassigned_images_are_shared_out(tmp_path, values, splits, expected):
    draw_images(tmp_path, [f"{n}.png" for n in range(3)])
    rows = [["split", "path", "label"]]
    rows += [[value, f"{n}.png", "ab"[n % 2]] for n, value in enumerate(values)]
    options = {"splits": splits} if splits else {}
    found = understand(write_table(tmp_path / "t.csv", rows), **options)
    assert list(splits_of(found).values()) == expected


def test_a_prefix_may_lack_its_slash_and_no_folder_is_named_that_is_not_here(tmp_path):
    draw_images(tmp_path, ["0.png", "1.png"])
    rows = [["path", "label"], ["/home/u/data/0.png", "a"], ["/home/u/data/9.png", "b"]]
    table = write_table(tmp_path / "t.csv", rows)
    found = understand(table, path_prefix="/home/u/data")
    assert labels_of(found) == {"0.png": "a"}
    write_table(tmp_path / "t.csv", [*rows[:1], ["/home/u/data/8.png", "a"], rows[2]])
    with pytest.raises(UserError, match=r"ingest.path_prefix=/home/u/data/ takes the beginning"):
        ingest(table, str(tmp_path / "out"))
