"""A folder is listed once, and a table read once, before its images are."""

import collections
import json
import os
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from image_pipeline.api import ingest
from image_pipeline.cli import cli
from image_pipeline.components import files
from image_pipeline.components.archives import archive_members
from image_pipeline.components.meaning import listing as listing_module
from image_pipeline.components.meaning.listing import list_images, offer, take
from image_pipeline.components.meaning.options import IngestOptions
from tests.drawings import draw, encode_png, write_folder

pytestmark = pytest.mark.beam

_SPLITS = {"train": 0.5, "eval": 0.5}


@pytest.fixture
def opened(monkeypatch):
    """How often each folder was listed, and each table opened, by their names."""
    counts = collections.Counter()
    scandir, open_input = os.scandir, files.open_input

    def list_folder(path="."):
        counts[os.path.basename(str(path).rstrip("/"))] += 1
        return scandir(path)

    def open_table(path, *arguments):
        counts[os.path.basename(path)] += 1
        return open_input(path, *arguments)

    monkeypatch.setattr(os, "scandir", list_folder)
    monkeypatch.setattr(files, "open_input", open_table)
    return counts


def _ingest(folder, images, **options):
    summary = ingest(str(images), str(folder / "out"), splits=_SPLITS, **options)
    return summary["written"]


def test_a_folder_is_listed_once(tmp_path, opened):
    images = write_folder(tmp_path / "images", per_class=6)
    assert _ingest(tmp_path, images) == 12
    assert (opened["cat"], opened["dog"]) == (2, 2)  # Annotations might be among images.


@pytest.mark.parametrize("is_stated", [True, False])
def test_a_folder_of_images_and_masks_is_listed_once(tmp_path, opened, is_stated):
    for kind in ("images", "masks"):
        (tmp_path / "pairs" / kind).mkdir(parents=True)
        for n in range(6):
            pixels = draw(n) if kind == "images" else np.full_like(draw(n), n % 2)
            (tmp_path / "pairs" / kind / f"{n}.png").write_bytes(encode_png(pixels))
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    options = {"masks": masks}
    if not is_stated:  # Then a file says what is in the masks.
        (tmp_path / "pairs" / "label_colors.txt").write_text("0 0 0 sky\n1 1 1 road\n")
        options = {}
    assert _ingest(tmp_path, tmp_path / "pairs", **options) == 6
    assert (opened["images"], opened["masks"]) == (2, 2)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.json"])
def test_a_table_is_read_once_even_where_rows_name_an_image_again(tmp_path, opened, name):
    write_folder(tmp_path, per_class=6)
    rows = [
        {"path": f"{label}/{n:03d}.png", "class": label}
        for label in ("cat", "dog")
        for n in range(6)
    ]
    rows.append(rows[0])
    text = {
        "t.csv": "path,class\n" + "".join(f"{row['path']},{row['class']}\n" for row in rows),
        "t.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
        "t.json": json.dumps(rows),
    }
    (tmp_path / name).write_text(text[name])
    assert _ingest(tmp_path, tmp_path / name, max_bad_fraction=0.5) == 12
    assert opened[name] == 1


def test_an_archive_is_listed_once(tmp_path, monkeypatch):
    images, listed = write_folder(tmp_path / "images", per_class=6), []
    shutil.make_archive(str(tmp_path / "photos"), "zip", images)
    list_zip = archive_members._list_zip

    def count(file, path):
        listed.append(path)
        return list_zip(file, path)

    monkeypatch.setattr(archive_members, "_list_zip", count)
    assert _ingest(tmp_path, tmp_path / "photos.zip") == 12
    assert len(listed) == 1


def test_a_listing_that_was_offered_is_taken_once_and_by_the_same_images_only(tmp_path):
    images, options = str(write_folder(tmp_path / "images", per_class=2)), IngestOptions()
    made = list_images(images, options)
    offer(made, options)
    assert take(images, IngestOptions(seed=1), made.fingerprint) is not made
    assert take(images, options, "another") is not made
    assert take(images, options, made.fingerprint) is made
    again = take(images, options, made.fingerprint)
    assert again is not made and list(again.refs()) == list(made.refs())


def test_of_listings_that_nobody_takes_some_are_kept(tmp_path):
    images = str(write_folder(tmp_path / "images", per_class=1))
    for seed in range(70):
        options = IngestOptions(seed=seed)
        offer(list_images(images, options), options)
    assert len(listing_module._offered) == 64
    listing_module._offered.clear()


@pytest.mark.parametrize("label", ["cat", "cat;big"], ids=["classes", "tags"])
def test_init_reads_a_table_once(tmp_path, monkeypatch, opened, label):
    write_folder(tmp_path, per_class=6)
    rows = "".join(f"{kind}/{n:03d}.png,{label}\n" for kind in ("cat", "dog") for n in range(6))
    (tmp_path / "t.csv").write_text(f"path,tags\n{rows}")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["init", "t.csv", "--yes"], catch_exceptions=False)
    assert done.exit_code == 0 and "12" in done.output
    assert opened["t.csv"] == 1
