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
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.ingest.shards import write_shard
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions

OPTIONS = {"prepare": {"encoding": "png"}, "splits": {"train": 0.7, "eval": 0.3}, "shards": 2}


def ingest(images: pathlib.Path, output: pathlib.Path, **options) -> Manifest:
    """Ingests a folder with `OPTIONS` and the given ones; returns the manifest."""
    chosen = IngestOptions.model_validate(OPTIONS | options)
    return run_ingest(
        str(images),
        str(output),
        f"{output}/.work",
        complete_options(str(images), chosen),
        make_pipeline,
    )


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
    """Every file below a folder, by name."""
    folder = pathlib.Path(folder)
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def read_lines(path: pathlib.Path) -> list[dict]:
    """Reads JSON lines."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
