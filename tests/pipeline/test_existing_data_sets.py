"""Existing data sets by the command line: what `init` says of them, and that its choice runs."""

import os
import pathlib
import subprocess
import sys

import pytest

from image_pipeline.api import ingest
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.config import load_config
from tests.data_set_files import make_table, write_parquet, write_tar, write_tfrecord
from tests.drawings import draw, encode_png
from tests.pipeline.init.test_starter import _init
from tests.record_files.test_tfds import write_tfds
from tests.tables.test_table_files import write_saved

pytestmark = pytest.mark.beam

COUNT = 40
IMAGES = [encode_png(draw(number)) for number in range(COUNT)]


def _write_examples(folder, split, numbers):
    path = folder / f"{split}-00000-of-00001"
    examples = [{"image/encoded": IMAGES[n], "image/class/label": n % 2} for n in numbers]
    write_tfrecord(path, examples)


def _write_tfrecords(folder):
    _write_examples(folder, "train", range(30))
    _write_examples(folder, "validation", range(30, COUNT))
    return f"tfrecord:{folder}/*-of-*"


def _write_hub(folder):
    (folder / "data").mkdir()
    for split, numbers in (("train", range(30)), ("test", range(30, COUNT))):
        table = make_table([IMAGES[n] for n in numbers], label=[n % 2 for n in numbers])
        write_parquet(folder / "data" / f"{split}-00000-of-00001.parquet", table)
    return folder


def _write_web_dataset(folder):
    members = {}
    for number in range(COUNT):
        members |= {f"{number:03d}.png": IMAGES[number], f"{number:03d}.cls": b"%d" % (number % 2)}
    write_tar(folder / "a.tar", members)
    return folder / "a.tar"


def _write_tfds(folder):
    write_tfds(folder / "tiny" / "1.0.0", (("train", 2), ("test", 1)))
    return folder / "tiny" / "1.0.0"


WRITERS = {
    "TFRecords": (_write_tfrecords, {"train": 30, "eval": 10}),
    "a table": (_write_hub, {"train": 30, "eval": 10}),
    "a WebDataset": (_write_web_dataset, None),
    "a TFDS data set": (_write_tfds, {"train": 4, "eval": 2}),
    "a data set that Hugging Face's datasets saved": (
        lambda folder: write_saved(folder / "saved"),
        {"train": 1, "eval": 1},
    ),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_init_names_what_it_found_and_its_choice_runs(tmp_path, kind):
    write, splits = WRITERS[kind]
    (tmp_path / "in").mkdir()
    images, config = str(write(tmp_path / "in")), str(tmp_path / "c.yaml")
    said = _init(images, "--output", config, "--yes").output
    assert f"layout            {kind}\n" in said
    summary = ingest(images, str(tmp_path / "out"), config=config)
    assert summary["quarantined"] == 0
    assert summary["splits"] == splits if splits else sum(summary["splits"].values()) == COUNT
    assert load_config(config).ingest.columns["image"] is not None
    assert _fingerprint(images) == _fingerprint(images)


def _fingerprint(images):
    """By which `run` tells whether anything has changed."""
    return list_images(images, IngestOptions()).fingerprint


def test_a_changed_file_is_another_source(tmp_path):
    (tmp_path / "in").mkdir()
    images = _write_tfrecords(tmp_path / "in")
    before = _fingerprint(images)
    os.utime(tmp_path / "in" / "train-00000-of-00001", ns=(0, 1))
    assert _fingerprint(images) != before


def test_ingested_data_is_named_and_ingested_once_more(tmp_path):
    (tmp_path / "in").mkdir()
    first = ingest(_write_tfrecords(tmp_path / "in"), str(tmp_path / "first"))
    said = _init(tmp_path / "first", "--output", tmp_path / "c.yaml", "--yes").output
    assert "layout            a data set that was ingested\n" in said
    again = ingest(
        str(tmp_path / "first"), str(tmp_path / "again"), config=str(tmp_path / "c.yaml")
    )
    assert again["splits"] == first["splits"] == {"train": 30, "eval": 10}


@pytest.mark.wide
def test_the_command_line_runs_from_anywhere(tmp_path, monkeypatch):
    """A second run from another folder, by another path, finds the same source."""
    (tmp_path / "in").mkdir()
    images = _write_tfrecords(tmp_path / "in")
    program = str(pathlib.Path(sys.executable).with_name("image-pipeline"))
    for folder, named in ((tmp_path, "tfrecord:in/*-of-*"), (tmp_path / "in", images)):
        command = [program, "ingest", "--images", named, "--output", str(tmp_path / "out")]
        run = subprocess.run(
            [*command, "--quiet"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
    assert read_manifest(str(tmp_path / "out")).books.written == COUNT


def test_a_split_that_there_is_not_is_refused_at_once(tmp_path):
    (tmp_path / "in").mkdir()
    images = _write_tfrecords(tmp_path / "in")
    _write_examples(tmp_path / "in", "extra", range(3))
    with pytest.raises(UserError, match=r"of the split 'extra', but ingest.splits has train, eval"):
        ingest(images, str(tmp_path / "out"))
    assert not (tmp_path / "out" / "manifest.json").exists()
