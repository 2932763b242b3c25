"""Splits that do not leak, through the whole of ingest: near-duplicates, folders, classes."""

import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.drawings import draw_smooth, encode_png
from tests.ingest_runs import ingest, read_lines

pytestmark = pytest.mark.beam

SCENES = 12


def _encode_jpeg(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=60)
    return file.getvalue()


def _variants(pixels):
    """The same picture as four different files."""
    brighter = np.clip(pixels.astype(int) + 12, 0, 255).astype(np.uint8)
    return {
        "0 first.png": encode_png(pixels),
        "1 brighter.png": encode_png(brighter),
        "2 jpeg.jpg": _encode_jpeg(pixels),
        "3 small.png": encode_png(np.asarray(Image.fromarray(pixels).resize((96, 72)))),
    }


def _write(folder, scenes):
    """Writes `<class>/<scene> <variant>` of each scene, and as many unrelated pictures."""
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
    for scene in range(scenes):
        for number, (variant, data) in enumerate(_variants(draw_smooth(scene)).items()):
            name = ["cat", "dog"][number % 2]
            (folder / name / f"{scene:02d} {variant}").write_bytes(data)
        (folder / "cat" / f"alone {scene:02d}.png").write_bytes(
            encode_png(draw_smooth(900 + scene))
        )
    return folder


def _splits(output):
    rows = pq.read_table(output / "index.parquet").to_pylist()
    return {row["source"]: row["split"] for row in rows}


def _parted(splits):
    scenes = [
        [split for path, split in splits.items() if path[4:7] == f"{scene:02d} "]
        for scene in range(SCENES)
    ]
    assert [len(each) for each in scenes] == [4] * SCENES
    return sum(len(set(each)) > 1 for each in scenes)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return _write(tmp_path_factory.mktemp("near") / "images", SCENES)


def test_what_looks_alike_shares_a_split_and_is_listed(images, tmp_path):
    manifest = ingest(images, tmp_path, near_duplicates=4)
    splits = _splits(tmp_path)
    assert (manifest.books.written, len(splits)) == (5 * SCENES, 5 * SCENES)
    assert _parted(splits) == 0
    assert (manifest.books.near_duplicates, manifest.books.straddling) == (SCENES, 0)
    assert "near_duplicates.jsonl" in manifest.files
    lines = read_lines(tmp_path / "near_duplicates.jsonl")
    assert len(lines) == SCENES
    assert lines[3] == {
        "size": 4,
        "paths": [
            "cat/03 0 first.png",
            "cat/03 2 jpeg.jpg",
            "dog/03 1 brighter.png",
            "dog/03 3 small.png",
        ],
        "labels": ["cat", "cat", "dog", "dog"],
        "splits": [splits["cat/03 0 first.png"]] * 4,
    }


def test_without_the_option_copies_are_parted_and_an_old_list_goes(images, tmp_path):
    ingest(images, tmp_path, near_duplicates=4)
    assert ingest(images, tmp_path).books.near_duplicates is None
    assert _parted(_splits(tmp_path)) > 2
    assert "near_duplicates" not in json.loads((tmp_path / "manifest.json").read_text())
    assert not (tmp_path / "near_duplicates.jsonl").exists()


def test_copies_that_are_equal_to_the_byte_are_no_near_duplicates(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    for number in range(20):
        for copy in range(2):
            path = tmp_path / "images" / "cat" / f"{number:02d} {copy}.png"
            path.write_bytes(encode_png(draw_smooth(number)))
    manifest = ingest(tmp_path / "images", tmp_path / "out", near_duplicates=4)
    assert (manifest.books.duplicates, manifest.books.near_duplicates) == (20, 0)


def test_folders_that_part_what_looks_alike_are_counted(tmp_path):
    patterns = {"split_pattern": "(?P<split>[^/]+)/", "label_pattern": ".+(?P<label>...)$"}
    for variant, split in [("0 first.png", "train"), ("1 brighter.png", "eval")]:
        (tmp_path / "images" / split).mkdir(parents=True)
        for scene in range(3):
            data = _variants(draw_smooth(scene))[variant]
            (tmp_path / "images" / split / f"{scene} {variant}").write_bytes(data)
    manifest = ingest(tmp_path / "images", tmp_path / "out", near_duplicates=4, **patterns)
    assert (manifest.books.straddling, manifest.books.near_duplicates) == (3, 3)
    assert all(path.startswith(split) for path, split in _splits(tmp_path / "out").items())
    (line, *_) = read_lines(tmp_path / "out" / "near_duplicates.jsonl")
    assert line["splits"] == ["eval", "train"]


def test_stratify_gives_every_class_its_share(images, tmp_path):
    manifest = ingest(images, tmp_path, stratify=True, splits={"train": 0.75, "eval": 0.25})
    assert manifest.books.classes == {"train": {"cat": 27, "dog": 18}, "eval": {"cat": 9, "dog": 6}}
