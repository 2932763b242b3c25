"""A plan is the same however many rows are held, and whatever else is in the working folder."""

import pathlib
import shutil

import pytest

from image_pipeline.components.ingest import groups, output, placed_rows, ranges
from image_pipeline.components.ingest.partition import plan_shards
from image_pipeline.components.ingest.placed_rows import read_placed_rows
from image_pipeline.components.ingest.prepare_chunk import prepare_chunk
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import list_images
from image_pipeline.components.sources.references import make_chunks
from tests.drawings import draw_smooth, encode_png, write_folder

pytestmark = pytest.mark.unit


def _plan(images, work, seed):
    options = IngestOptions(seed=seed, shards=1, splits={"train": 1.0})
    (chunk,) = make_chunks(list_images(str(images)))
    prepared = prepare_chunk(chunk, str(images), WorkFolder(str(work)), options)
    (task,) = plan_shards([prepared], WorkFolder(str(work)), options)
    return task


def _read_paths(task, work):
    path = WorkFolder(str(work)).placed_path(task.plan)
    return read_placed_rows(path, task.row_span)["path"].to_pylist()


def test_two_plans_in_one_folder_do_not_mix(tmp_path):
    images = write_folder(tmp_path / "images", per_class=10)
    first = _plan(images, tmp_path / "work", seed=1)
    paths = _read_paths(first, tmp_path / "work")
    second = _plan(images, tmp_path / "work", seed=2)
    assert _read_paths(first, tmp_path / "work") == paths
    assert sorted(_read_paths(second, tmp_path / "work")) == sorted(paths)
    assert _read_paths(second, tmp_path / "work") != paths
    again = _plan(images, tmp_path / "work", seed=1)
    assert again == first


def _plan_all(chunks, work, options):
    """The rows of each shard, and the books by their names."""
    tasks = plan_shards(chunks, work, options)
    rows = [read_placed_rows(work.placed_path(task.plan), task.row_span) for task in tasks]
    books = pathlib.Path(work.books_dir(tasks[0].plan)).iterdir()
    return rows, {path.name: path.read_bytes() for path in books}


@pytest.mark.parametrize("duplicates", ["keep_first", "keep_all"])
@pytest.mark.parametrize("stratify", [False, True])
def test_the_rows_held_at_once_change_no_byte(tmp_path, monkeypatch, duplicates, stratify):
    """Of copies, conflicts, look-alikes, and chunks in which nothing is usable."""
    images, work = write_folder(tmp_path / "images", per_class=20), WorkFolder(str(tmp_path / "w"))
    for number in range(7):
        (images / "cat" / f"05{number}.png").write_bytes(b"no image")
        (images / "cat" / f"06{number}.txt").write_text("text")
        shutil.copy(images / "cat" / f"00{number}.png", images / "cat" / f"07{number}.png")
        shutil.copy(images / "cat" / f"01{number}.png", images / "dog" / f"07{number}.png")
        pixels = draw_smooth(number)
        (images / "dog" / f"08{number}.png").write_bytes(encode_png(pixels))
        (images / "dog" / f"09{number}.png").write_bytes(encode_png(pixels[1:]))
    options = IngestOptions(
        duplicates=duplicates,
        stratify=stratify,
        near_duplicates=2,
        max_bad_fraction=0.9,
        shards=3,
        splits={"train": 0.6, "eval": 0.4},
    )
    chunks = [
        prepare_chunk(chunk, str(images), work, options)
        for chunk in make_chunks(list_images(str(images)), max_refs=4)
    ]
    rows, books = _plan_all(chunks, work, options)
    lines = {name: content.count(b"\n") for name, content in books.items()}
    assert lines["quarantine.jsonl"] == 7 + 14 and lines["duplicates.jsonl"] == 7
    assert lines["skipped.jsonl"] == 7 and lines["near_duplicates.jsonl"] == 4
    for module, name, at_once in (
        (placed_rows, "ROWS_AT_ONCE", 6),
        (ranges, "RANGE_ROWS", 5),
        (output, "_LINES_AT_ONCE", 3),
        (groups, "_LINKS_AT_ONCE", 2),
    ):
        monkeypatch.setattr(module, name, at_once)
        assert _plan_all(chunks, work, options) == (rows, books)
    kept = {path.name.rpartition("-")[0] for path in (tmp_path / "w").iterdir()}
    assert kept == {"books", "placed", ""}
