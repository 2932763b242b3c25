"""Each kind of layout from `init --yes` to a verified data set, and through Python: what it means.

Where it cannot be known, both doors refuse it with the choices, and write nothing.
"""

import collections
import re

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline import api
from image_pipeline.cli import call
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.show.ingest_summary import summarize_data_set
from tests.layouts import every_layout
from tests.layouts.every_layout import BOXES, HEIGHT, WIDTH

pytestmark = [pytest.mark.beam, pytest.mark.wide]

ALL = {"train": 8, "eval": 4}
# What is meant: images of each class; or boxes of each class and their area in all, in pixels; or
# pixels of each class of masks. And images of each split, where the layout names them.
CLASSES = {
    "splits_of_classes": ({"daisy": 14, "rose": 14}, {"train": 16, "eval": 6, "test": 6}),
    "splits_twice": ({"forest": 11, "sea": 11}, {"train": 16, "eval": 6}),
    "classes_of_splits": ({"daisy": 11, "rose": 11}, {"train": 16, "eval": 6}),
    "splits_with_metadata": ({"daisy": 6, "rose": 6}, ALL),
    "anomaly": ({"good": 11, "scratch": 3}, {"train": 8, "eval": 6}),
    "one_name_like_a_mask": ({"cat": 12, "dog": 13}, None),
    "label_called_otherwise/data/legend.csv": ({"anger": 3, "joy": 3, "ANGER": 3, "fear": 3}, None),
    "identifiers/train.csv": ({"0": 4, "1": 4, "2": 4}, None),
    "one_column_a_class/truth.csv": ({"melanoma": 4, "nevus": 4, "keratosis": 4}, None),
    "a_split_column/all.csv": ({"a": 5, "b": 5}, {"train": 6, "eval": 2, "test": 2}),
    "spreadsheet/windows.csv": ({"Äpfel": 6, "Café": 6}, None),
    "spreadsheet/backslashes.csv": ({"Äpfel": 6, "Café": 6}, None),
    "spreadsheet/excel.csv": ({"a": 6, "b": 6}, None),
    "idx": (dict.fromkeys("0123456789", 4), {"train": 20, "eval": 20}),
    "tar_of_pairs/shard-000000.tar": ({"0": 6, "1": 6}, None),
    "twelve_bits": ({"a": 4, "b": 4}, None),
}
_PIXELS = sum((x1 - x0) * (y1 - y0) for _, _, _, _, x0, y0, x1, y1 in BOXES)
# Counted from 1, the last ones inside; three begin at 0 nevertheless.
_OF_VOC = sum((x1 - max(x0 - 1, 0)) * (y1 - max(y0 - 1, 0)) for *_, x0, y0, x1, y1 in BOXES)
_YOLO = WIDTH * HEIGHT * (6 * 0.25 * 0.5 + 6 * 0.125**2)
BOXED = {
    "metadata_with_objects": ({"0": 6, "1": 6}, 12 * 120, None),
    "boxes_a_row/labels.csv": ({"cat": 12, "dog": 12}, _PIXELS, None),
    "boxes_a_row/retinanet.csv": ({"cat": 12, "dog": 12}, _PIXELS, None),
    "voc": ({"cat": 12, "dog": 12}, _OF_VOC, ALL),
    "yolo": ({"cat": 3, "dog": 9}, _YOLO, ALL),
    "coco_per_split": (
        {"pets": 0, "cat": 7, "dog": 5}, 12 * 120, {"train": 6, "eval": 3, "test": 3}
    ),
    "coco_windows_paths/result.json": ({"cat": 12}, 12 * 120, None),
    "open_images/train-annotations-bbox.csv": (
        {"Cat": 12, "Dog": 12}, 24 * 0.4 * 0.4 * WIDTH * HEIGHT, None
    ),
}  # fmt: skip
MASKED = {
    "panoptic": {"cat": 12 * 225, "sky": 12 * 10 * WIDTH},
    "run_lengths/train.csv": {"background": 12 * (WIDTH * HEIGHT - 8) - 6 * 40, "1": 96, "2": 240},
    "colour_masks": {"background": 12 * (WIDTH * HEIGHT - 325), "Cat": 2700, "Dog": 1200},
}
ASKED = {
    "a_project": r"may mean several things.*ingest \S*/data; .*ingest \S*/split",
    "identifiers": r"may mean several things: .*ingest \S*train.csv; for no labels",
    "open_images": r"may mean several things: .*ingest \S*train-annotations-bbox.csv",
    "linked_classes/links": r"2 links lead out of it",
}
TOLD = {
    "splits_twice": "seg_pred/: 4 images of no class are left out",
    "boxes_a_row/labels.csv": "1 image lies beside those that labels.csv names, such as",
    "label_called_otherwise/data/legend.csv": "by capital letters alone: 'ANGER' and 'anger'",
    "twelve_bits": "ingest.prepare.depth=maximum",
    "idx": "all images of eval are copies of another split's",
}


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Draws a layout, and gives the path of what is given of it."""
    monkeypatch.chdir(tmp_path)

    def make(name: str) -> str:
        layout = name.partition("/")[0]
        getattr(every_layout, layout)(tmp_path / layout)
        return name

    return make


def _through_both_doors(images, capsys, has_splits=False):
    """What was said, what `init --yes` and its configuration come to, and what Python does."""
    assert call(["init", images, "--yes", "--output", "c.yaml"]) == 0
    said = capsys.readouterr()
    assert call(["ingest", "--images", images, "--output", "out", "--config", "c.yaml"]) == 0
    said = f"{said.out}{said.err}{capsys.readouterr().out}"
    assert call(["verify", "out"]) == 0
    options = {} if has_splits else {"splits": {"train": 0.5, "eval": 0.5}}
    options |= {"duplicates": "keep_as_given"} if images == "idx" else {}
    return said, summarize_data_set("out"), api.ingest(images, "python", **options)


def _examples(folder):
    for path in sorted(tf.io.gfile.glob(f"{folder}/Split-*/*")):
        for data in tf.data.TFRecordDataset(path).as_numpy_iterator():
            yield tf.train.Example.FromString(data).features.feature


def _list(feature):
    return list(feature.float_list.value or feature.int64_list.value or feature.bytes_list.value)


def _check_common(name, said, summary, splits):
    assert TOLD.get(name, "") in " ".join(said.split())
    if splits is not None:
        assert summary["splits"] == splits
    assert summary["quarantined"] == 0
    assert summary["found"] == summary["written"] + summary["duplicates"] + summary["skipped"]


@pytest.mark.parametrize("name", CLASSES)
def test_classes(make, capsys, name):
    expected, splits = CLASSES[name]
    said, first, second = _through_both_doors(make(name), capsys, splits is not None)
    for folder, summary in (("out", first), ("python", second)):
        _check_common(name, said, summary, splits)
        found = (_list(each["image/class/text"])[0].decode() for each in _examples(folder))
        assert collections.Counter(found) == expected


@pytest.mark.parametrize("name", BOXED)
def test_boxes(make, capsys, name):
    expected, area_px, splits = BOXED[name]
    said, first, second = _through_both_doors(make(name), capsys, splits is not None)
    for folder, summary in (("out", first), ("python", second)):
        _check_common(name, said, summary, splits)
        assert summary["boxes"] == expected
        found = 0.0
        for each in _examples(folder):
            sides = [
                np.array(_list(each[f"image/object/bbox/{side}"]))
                for side in ("xmin", "xmax", "ymin", "ymax")
            ]
            shares = float(np.sum((sides[1] - sides[0]) * (sides[3] - sides[2])))
            found += shares * _list(each["image/height"])[0] * _list(each["image/width"])[0]
        assert found == pytest.approx(area_px, rel=1e-5)


@pytest.mark.parametrize("name", MASKED)
def test_masks(make, capsys, name):
    said, *summaries = _through_both_doors(make(name), capsys)
    for summary in summaries:
        _check_common(name, said, summary, None)
        found = zip(summary["mask_classes"], summary["mask_pixels"], strict=True)
        assert dict(found) == MASKED[name]


@pytest.mark.parametrize("name", ASKED)
def test_what_may_mean_several_things_is_refused_with_the_choices(make, tmp_path, capsys, name):
    images, before = make(name), sorted(tmp_path.rglob("*"))
    assert call(["init", images, "--yes", "--output", "c.yaml"]) == 1
    assert re.search(ASKED[name], " ".join(capsys.readouterr().err.split()))
    with pytest.raises(UserError):
        api.ingest(images, "python")
    assert sorted(tmp_path.rglob("*")) == before


def test_names_that_are_alike_are_told_and_joined_by_one_option(make, capsys):
    images = make("alike_names")
    said, summary, _ = _through_both_doors(images, capsys)
    assert summary["written"] == 24
    for slip in ("capital letters", "blanks", "Unicode"):
        assert slip in said
    joined = {"trim": True, "fold_case": True, "normalise": True}
    # Of so few, chance may leave a split empty.
    api.ingest(images, "joined", labels=joined, stratify=True, splits={"train": 0.8, "eval": 0.2})
    found = (_list(each["image/class/text"])[0].decode() for each in _examples("joined"))
    assert collections.Counter(found) == {"rose": 8, "daisy": 8, "thé": 8}


def test_linked_classes_are_followed_when_that_is_asked(make, capsys):
    images = make("linked_classes/links")
    assert call(["init", images, "--yes", "--follow-links", "--output", "c.yaml"]) == 0
    assert call(["ingest", "--images", images, "--output", "out", "--config", "c.yaml"]) == 0
    assert read_manifest("out").books.written == 8
