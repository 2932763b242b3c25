"""Runs ingest on a small folder as one Beam job, for tests."""

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.paths import SOURCES
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.earlier import Compare, Earlier, count_taken, find_earlier
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.ingest.shards import write_shard
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions

OPTIONS = {"prepare": {"encoding": "png"}, "splits": {"train": 0.7, "eval": 0.3}, "shards": 2}


def ingest(
    images: pathlib.Path, output: pathlib.Path, earlier: Earlier | None = None, **options
) -> Manifest:
    """Ingests a folder with `OPTIONS` and the given ones; returns the manifest."""
    chosen = IngestOptions.model_validate(OPTIONS | options)
    return run_ingest(
        str(images),
        str(output),
        f"{output}/.work",
        complete_options(str(images), chosen),
        make_pipeline,
        earlier=earlier,
    )


def update(
    images: pathlib.Path,
    before: pathlib.Path,
    output: pathlib.Path,
    compare: Compare = "times",
    **options,
) -> int:
    """Ingests what has changed since an earlier ingest: it is as if all were ingested again.

    Returns:
      How many images were taken from the data set before, which stays as it is.
    """
    fresh, was = output.with_name(f"{output.name}-fresh"), read_files(before)
    ingest(images, output, find_earlier(str(before), compare), **options)
    ingest(images, fresh, **options)
    assert read_files(output) == read_files(fresh)
    assert read_files(before) == was
    assert verify_data_set(str(output)) == []
    return count_taken(str(output))


@contextlib.contextmanager
def stopped_at_a_shard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has an ingest fail when it has written its first shard, and expects it to."""

    def stop(*arguments: Any) -> None:
        write_shard(*arguments)
        raise UserError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr("image_pipeline.components.ingest.run.write_shard", stop)
        with pytest.raises(UserError, match="stopped"):
            yield


def make_pipeline() -> beam.Pipeline:
    """A Beam pipeline that runs here."""
    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))


def read_files(folder: str | pathlib.Path) -> dict[str, bytes]:
    """Every file below a folder, by name, but for what an ingest knows of its sources' times."""
    folder = pathlib.Path(folder)
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != SOURCES)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def read_lines(path: pathlib.Path) -> list[dict]:
    """Reads JSON lines."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
