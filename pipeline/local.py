"""Runs the pipeline on this machine and gathers what it did."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from tfx import v1 as tfx
from tfx.orchestration.pipeline import RunOptions
from tfx.orchestration.portable import launcher

from components import files, progress
from components.errors import find_user_error
from components.ingest.manifest import read_manifest
from pipeline.config import PipelineConfig
from pipeline.executions import ComponentRun, read_execution, read_taken
from pipeline.memory import watch_memory
from pipeline.part import Part, check_any_ran, check_part, explain_part
from pipeline.pipeline import create_pipeline

_INGEST = "ImageExampleGen"


def run_locally(
    config: PipelineConfig,
    images_dir: str,
    output_dir: str,
    fingerprint: str,
    beam_args: Sequence[str],
    on_start: Callable[[str], Any],
    on_finish: Callable[[ComponentRun], Any],
    span: int | None = None,
    earlier: Mapping[int, str] | None = None,
    part: Part = Part(),  # noqa: B008  (frozen)
) -> list[ComponentRun]:
    """Runs the pipeline with TFX's LocalDagRunner.

    Args:
      config: of the pipeline.
      images_dir: the folder of images, or a pattern of spans' folders.
      output_dir: holds, in the end, `artifacts/`, `metadata.db` and `pushed_model/`.
      fingerprint: of the images.
      beam_args: Beam flags; they name the runner and its mode.
      on_start: called with a component's name before it runs.
      on_finish: called after it ran.
      span: which one of a pattern is run; None where `images_dir` is no pattern.
      earlier: number and fingerprint of further spans that `config.spans.window` wants. They are
        ingested first, each alone; TFX's cache knows those that are already.
      part: which components run. Without ImageExampleGen, no span is ingested.

    Returns:
      The run of every component that has outputs, in order.

    Raises:
      UserError: if the person who called can put it right.
    """
    metadata_path = files.join(output_dir, "metadata.db")
    create = functools.partial(
        create_pipeline,
        config,
        images_dir,
        files.join(output_dir, "artifacts"),
        pushed_dir(output_dir),
        metadata_path=metadata_path,
        beam_args=tuple(beam_args),
    )
    pipeline = create(fingerprint, span=span)
    check_part(part, [component.id for component in pipeline.components])
    runs: list[ComponentRun] = []
    started: list[str] = []

    def start(name: str) -> None:
        started.append(name)
        on_start(name)
        if name == "Evaluator":
            _begin_evaluation(runs)

    def finish(run: ComponentRun) -> None:
        runs.append(run)
        on_finish(run)

    launch = functools.partial(_launch, metadata_path, start, finish)
    try:
        if part.first in (None, _INGEST):
            for number, of_images in (earlier or {}).items():
                launch(create(of_images, span=number), Part(last=_INGEST), f"{_INGEST} {number}")
        launch(pipeline, part)
    except Exception as error:
        explained = find_user_error(error) or explain_part(error, part, bool(started))
        raise explained or error from error
    check_any_ran(part, len(runs))
    taken = [] if part.is_whole else read_taken(metadata_path, {run.name for run in runs})
    return [*taken, *runs]


def pushed_dir(output_dir: str) -> str:
    """Where a run's models are pushed, a folder for each version."""
    return files.join(output_dir, "pushed_model")


def _begin_evaluation(runs: Sequence[ComponentRun]) -> None:
    """Says how many records there are for `components.training.counting`, where this run knows."""
    folders = [run.outputs["examples"] for run in runs if run.name.startswith(_INGEST)]
    if folders:
        splits = [read_manifest(folder)["splits"]["eval"] for folder in folders]
        progress.begin("records", sum(split["records"] for split in splits))


def _launch(
    metadata_path: str,
    on_start: Callable[[str], Any],
    on_finish: Callable[[ComponentRun], Any],
    pipeline: tfx.dsl.Pipeline,
    part: Part,
    name: str | None = None,
) -> None:
    """Runs a part of a pipeline; `name` is what its only component is called."""

    def finish(run: ComponentRun) -> None:
        on_finish(dataclasses.replace(run, name=name or run.name))

    with _observe_components(metadata_path, on_start, finish):
        tfx.orchestration.LocalDagRunner().run(pipeline, _to_run_options(part))


def _to_run_options(part: Part) -> RunOptions | None:
    if part.is_whole:
        return None
    return RunOptions(
        from_nodes=None if part.first is None else [part.first],
        to_nodes=None if part.last is None else [part.last],
    )


@contextlib.contextmanager
def _observe_components(
    metadata_path: str, on_start: Callable[[str], Any], on_finish: Callable[[ComponentRun], Any]
) -> Iterator[None]:
    """Wraps TFX's launcher, which has no hooks, while the block runs."""
    launch = launcher.Launcher.launch

    def observed(self: launcher.Launcher) -> Any:
        name = self._pipeline_node.node_info.id
        on_start(name)
        started = time.monotonic()
        with watch_memory() as memory:
            info = launch(self)
        seconds = time.monotonic() - started
        on_finish(
            read_execution(metadata_path, info.execution_id, name, seconds, memory.peak_rss_mb)
        )
        return info

    with mock.patch.object(launcher.Launcher, "launch", observed):
        yield
