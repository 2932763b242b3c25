"""What `init` takes tables of tags, values and boxes for, and that its configuration runs."""

import json

import numpy as np
import pytest

from image_pipeline.api import ingest
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.init.starter import Sizes, guess_view
from tests.drawings import draw, encode_png, write_folder
from tests.pipeline.init.test_starter import _init, _write_table

pytestmark = pytest.mark.beam

COUNT = 40


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(COUNT):
        (folder / f"{number:02d}.png").write_bytes(encode_png(draw(number)))
    return folder


def _start(tmp_path, source):
    """What init says, its configuration, and what ingest makes by it."""
    said = _init(source, "--output", tmp_path / "c.yaml", "--yes").output
    table = said.rpartition("--images ")[2].partition(" --output")[0].strip("'")
    ingest(table, str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    return said, load_config(str(tmp_path / "c.yaml")), read_manifest(str(tmp_path / "out"))


@pytest.mark.parametrize(("column", "separator"), [("tags", ";"), ("label", "|"), ("label", ",")])
def test_cells_of_several_tags_are_split(tmp_path, images, column, separator):
    cells = [
        separator.join(["sky", "tree"] if n % 2 else ["sky"] if n % 4 else []) for n in range(COUNT)
    ]
    rows = [f'{n:02d}.png,"{cell}"' for n, cell in enumerate(cells)]
    said, config, manifest = _start(tmp_path, _write_table(images, [f"path,{column}", *rows]))
    assert f"2: sky (30), tree (20); separated by {separator!r}" in said
    assert config.ingest.tag_separator == separator and "image-pipeline run" in said
    # Of 40 · 2 tags 50 are true: answering all gives 2 · 0.625 / 1.625.
    assert config.evaluation.min_f1 == round(0.9 * 2 * 0.625 / 1.625 + 0.1, 4)
    assert manifest.label.key.endswith("tags") and manifest.books.written == COUNT


def test_lists_are_tags(tmp_path, images):
    rows = [{"path": f"{n:02d}.png", "tags": ["sky"] * (n % 2)} for n in range(COUNT)]
    table = images / "t.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)))
    said, config, manifest = _start(tmp_path, table)
    assert "1: sky (20)\n" in said and config.ingest.tag_separator is None
    assert not config.ingest.stratify and manifest.books.written == COUNT


def test_names_with_commas_stay_classes(tmp_path, images):
    rows = [f'{n:02d}.png,"{("crane, bird", "tench, fish")[n % 2]}"' for n in range(COUNT)]
    said, config, manifest = _start(tmp_path, _write_table(images, ["path,label", *rows]))
    assert "2: crane, bird (20), tench, fish (20)" in said and manifest.label is None
    assert config.ingest.tag_separator is None


def test_numbers_with_fractions_are_values(tmp_path, images):
    rows = [f"{n:02d}.png,{n / 4}" for n in range(COUNT)]
    said, config, manifest = _start(tmp_path, _write_table(images, ["path,label", *rows]))
    assert "from 0 to 9.75\n" in said and "image-pipeline run" in said
    variance = np.var(np.arange(COUNT) / 4)
    assert config.evaluation.max_mean_squared_error == pytest.approx(0.9 * variance, rel=1e-3)
    assert manifest.label.key.endswith("value")


def _write_coco(path, names, folder):
    path.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(encode_png(draw(int(name[:2]))))
    images = [{"id": n, "file_name": name} for n, name in enumerate(names)]
    boxes = [
        {"image_id": n, "bbox": [1, 1, 4, 4], "category_id": 1 + n % 2} for n in range(len(names))
    ]
    classes = [{"id": 2, "name": "cat"}, {"id": 1, "name": "dog"}, {"id": 3, "name": "owl"}]
    content = {"images": images, "annotations": boxes, "categories": classes}
    path.write_text(json.dumps(content))


def test_cocos_folder_is_read_split_by_split(tmp_path):
    coco = tmp_path / "coco"
    # The same names in both folders, as `000.png` of each split.
    for split, count in (("train", 30), ("val", 10)):
        names = [f"{n:02d}.png" for n in range(count)]
        _write_coco(coco / f"annotations/instances_{split}2017.json", names, coco / f"{split}2017")
    for n in range(10):
        (coco / f"val2017/{n:02d}.png").write_bytes(encode_png(draw(100 + n)))
    said, config, manifest = _start(tmp_path, coco)
    assert "COCO files, one a split" in said and "3: dog (20), cat (20), owl (0)" in said
    assert "train 30, eval 10" in said and "image-pipeline run" in said
    assert config.ingest.root_dir == "../{SPLIT}2017"
    assert config.evaluation.min_map_50_95 == 0.1
    splits = {name: split.records for name, split in manifest.splits.items()}
    assert splits == {"train": 30, "eval": 10}
    assert manifest.splits["eval"].box_counts == {"dog": 5, "cat": 5, "owl": 0}
    assert manifest.books.quarantined == 0


@pytest.mark.parametrize("below", ["images", "../images", "../train2017", ".."])
def test_a_coco_file_finds_its_images(tmp_path, below):
    table = tmp_path / "coco/annotations/instances_train2017.json"
    _write_coco(table, [f"{n:02d}.png" for n in range(20)], table.parent / below)
    said, config, manifest = _start(tmp_path, table)
    assert config.ingest.root_dir == below and f"{below}, seen from the table's folder" in said
    assert "a COCO file\n" in said and manifest.books.written == 20


def test_yolos_folder_is_explained(tmp_path):
    images = write_folder(tmp_path / "images", ("train", "val"), per_class=2)
    for path in images.rglob("*.png"):
        label = tmp_path / "labels" / path.relative_to(images).with_suffix(".txt")
        label.parent.mkdir(parents=True, exist_ok=True)
        label.write_text("0 0.5 0.5 0.1 0.1\n")
    with pytest.raises(UserError, match="has boxes as YOLO has them"):
        _init(tmp_path, "--output", tmp_path / "c.yaml", "--yes")


def test_with_boxes_the_view_keeps_the_images_shape():
    sizes = Sizes(480, 640, equal=False, gray=False)
    assert guess_view(sizes, has_boxes=True) == (224, 288, 3)
    assert guess_view(sizes) == (224, 224, 3)
    assert guess_view(Sizes(20, 300, equal=True, gray=False), has_boxes=True) == (32, 288, 3)
