"""A shard's rows are those of its own plan, whatever else lies in the working folder."""

import pytest

from image_pipeline.components.ingest.partition import plan_shards
from image_pipeline.components.ingest.placed_rows import read_placed_rows
from image_pipeline.components.ingest.prepare_chunk import prepare_chunk
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import list_images
from image_pipeline.components.sources.references import make_chunks
from tests.drawings import write_folder

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
