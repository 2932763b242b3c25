"""What holds for every source: all of it is in the books, and only what it holds decides a byte.

A new source is one case in `tests/golden/cases.py`, and is held to all of this.
"""

import dataclasses
import itertools
import pathlib
import shutil
from typing import Any

import pyarrow.parquet as pq
import pytest

from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.forecast import forecast_ingest
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from tests.golden.cases import CASES, OPTIONS
from tests.ingest_runs import ingest, read_lines, stopped_at_a_shard
from tests.tiers import wide

pytestmark = pytest.mark.beam

# Of tables with each kind of label, the one with classes.
NAMES = [name for name in CASES if not name.startswith(("csv, ", "jsonl, "))]
NAMES += ["csv, class", "jsonl, class"]
# What is known of these is read from other files first; their images then as those of a folder.
LISTED = ("coco folder", "createml", "cub", "voc", "panoptic", "outlines", "labelme", "run lengths")
LISTED += ("yolo", "image folder", "paths", "tsv", "arrow", "npz")
# Made by code: there is no file that could be damaged.
FILES = [name for name in NAMES if name not in ("generator", "own source", "own rows")]


def each(names):
    return pytest.mark.parametrize("name", [wide(n) if n in LISTED else n for n in names])


@dataclasses.dataclass(frozen=True)
class Source:
    """One of each kind, and what an ingest made of it."""

    images: pathlib.Path | str
    options: dict[str, Any]
    data: pathlib.Path
    manifest: Manifest

    def ingest(self, output: pathlib.Path, **options: Any) -> Manifest:
        """Again, with further options."""
        return ingest(self.images, output, **(self.options | options))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Makes a source once, when it is first asked for."""
    made: dict[str, Source] = {}

    def find(name):
        if name not in made:
            folder, case = tmp_path_factory.mktemp("source"), CASES[name]
            options = OPTIONS | case.options
            images = case.make(folder)
            manifest = ingest(images, folder / "data", **options)
            made[name] = Source(images, options, folder / "data", manifest)
        return made[name]

    return find


def contents(output):
    """All files of a data set by their names, but for the note of where it came from."""
    paths = [path for path in output.rglob("*") if path.is_file() and path.name[0] != "."]
    return {path.relative_to(output).as_posix(): path.read_bytes() for path in paths}


def names_in(output):
    return set(pq.read_table(output / "index.parquet").column("source").to_pylist())


def list_lines(path):
    return read_lines(path) if path.exists() else []


@each(NAMES)
def test_all_that_is_found_is_in_the_books(sources, name):
    source = sources(name)
    books, rows = source.manifest.books, pq.read_table(source.data / "index.parquet")
    assert books.found == books.accounted > 10 and books.written == rows.num_rows
    assert len(list_lines(source.data / "quarantine.jsonl")) == books.quarantined
    assert len(list_lines(source.data / "duplicates.jsonl")) == books.duplicates
    assert len(names_in(source.data)) == books.written
    assert verify_data_set(str(source.data)) == []


@each(NAMES)
def test_neither_a_stop_nor_threads_nor_a_second_run_change_a_byte(
    sources, name, tmp_path, monkeypatch
):
    source, expected = sources(name), contents(sources(name).data)
    with stopped_at_a_shard(monkeypatch):
        source.ingest(tmp_path / "out", threads=3)
    assert not (tmp_path / "out" / "manifest.json").exists()
    source.ingest(tmp_path / "out", threads=2)
    assert contents(tmp_path / "out") == expected
    source.ingest(tmp_path / "out")
    assert contents(tmp_path / "out") == expected


@each(name for name in NAMES if name != "generator")
def test_a_forecast_of_all_names_the_records_and_shards(sources, name):
    source = sources(name)
    options = IngestOptions.model_validate(source.options)
    images = str(source.images)
    forecast = forecast_ingest(images, complete_options(images, options), sample_size=1000)
    books, splits = source.manifest.books, source.manifest.splits
    # Copies are found by their bytes only, when all have been read.
    assert forecast.records == books.written + books.duplicates
    assert forecast.shards == {split: len(each.shards) for split, each in splits.items()}


# In its beginning, and in one of three other places.
DAMAGES = [(name, 0.03) for name in FILES]
DAMAGES += zip(FILES, itertools.cycle([0.3, 0.6, 0.9]), strict=False)


@pytest.mark.parametrize(
    ("name", "share"),
    [wide(*each) if each[0] in LISTED or each[1] > 0.03 else each for each in DAMAGES],
)
def test_a_damaged_source_is_refused_or_its_losses_are_in_the_books(sources, name, share, tmp_path):
    """Of its largest file, 40 bytes are lost; whatever is written then is one of its images."""
    source = sources(name)
    root = pathlib.Path(source.images)
    shutil.copytree(source.data.parent, tmp_path / "copy", ignore=lambda *_: ["data"])
    paths = sorted(
        path
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file() and (path.is_relative_to(tmp_path / "copy" / root.name) or root.is_file())
    )
    largest = max(paths, key=lambda path: path.stat().st_size)
    data = largest.read_bytes()
    at = int(share * len(data))
    largest.write_bytes(data[:at] + data[at + 40 :])
    try:
        books = ingest(tmp_path / "copy" / root.name, tmp_path / "out", **source.options).books
    except UserError:
        return  # It cannot be read, or too little is left for the splits.
    assert books.found == books.accounted
    copies = {line["path"] for line in list_lines(source.data / "duplicates.jsonl")}
    assert names_in(tmp_path / "out") <= names_in(source.data) | copies
    assert verify_data_set(str(tmp_path / "out")) == []
