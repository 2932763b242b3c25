"""Runs the pipeline on this machine and collects its results."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.pipeline import Pipeline, RunOptions
from tfx.orchestration.portable import launcher

from image_pipeline.components import progress
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.record import further_columns
from image_pipeline.components.errors import find_user_error
from image_pipeline.components.transform.run import load_preprocessing_fn
from image_pipeline.history.reasons import explain_execution
from image_pipeline.pipeline import create_pipeline
from image_pipeline.run.part import Part, check_any_ran, check_part, explain_part
from image_pipeline.run.run_plan import RunPlan
from image_pipeline.run.used_memory import watch_memory
from image_pipeline.tfx_metadata import ComponentRun, read_execution, read_taken

_INGEST, _TRANSFORM = "ImageExampleGen", "ImageTransform"


def run_locally(
    plan: RunPlan, on_start: Callable[[str], Any], on_finish: Callable[[ComponentRun], Any]
) -> list[ComponentRun]:
    """Runs the pipeline with TFX's LocalDagRunner.

    Args:
      plan: what is run, on what, and where it goes.
      on_start: called with a component's name before it runs.
      on_finish: called with its run afterwards.

    Returns:
      The run of every component that has outputs, in order.

    Raises:
      UserError: if the person who called can put it right.
    """
    pipeline = _create_pipeline(plan, plan.fingerprint, plan.span)
    check_part(plan.part, [component.id for component in pipeline.components])
    if plan.part.first in (None, _INGEST, _TRANSFORM):  # Later ones already have its graph.
        load_preprocessing_fn(
            plan.config.view,
            plan.config.transform,
            further_columns(plan.config.ingest.column_types),
        )
    collected = _Runs(on_start, on_finish)
    try:
        if plan.part.first in (None, _INGEST):
            for span, fingerprint in plan.earlier.items():
                earlier = _create_pipeline(plan, fingerprint, span)
                _launch(plan.folder.metadata_path, earlier, Part(last=_INGEST), collected, span)
        _launch(plan.folder.metadata_path, pipeline, plan.part, collected)
    except Exception as error:
        explained = find_user_error(error) or explain_part(error, plan.part, collected.any_started)
        if explained is None:
            raise
        raise explained from error
    runs = collected.runs
    check_any_ran(plan.part, len(runs))
    if plan.part.is_whole:
        return runs
    taken = read_taken(plan.folder.metadata_path, {run.name for run in runs})
    return [*taken, *runs]


def _create_pipeline(plan: RunPlan, fingerprint: str, span: int | None) -> Pipeline:
    return create_pipeline(
        plan.config,
        plan.images_dir,
        plan.folder.artifacts_dir,
        plan.pushed_dir,
        fingerprint,
        metadata_path=plan.folder.metadata_path,
        beam_args=plan.beam_args,
        span=span,
    )


class _Runs:
    """Collects the components' runs so far, and passes each on to the callbacks."""

    def __init__(self, on_start: Callable[[str], Any], on_finish: Callable[[ComponentRun], Any]):
        self._on_start, self._on_finish = on_start, on_finish
        self.any_started = False
        self.runs: list[ComponentRun] = []

    def start(self, name: str) -> None:
        self.any_started = True
        self._on_start(name)
        if name == "Evaluator":
            _begin_evaluation(self.runs)

    def finish(self, run: ComponentRun, earlier_span: int | None = None) -> None:
        if earlier_span is not None:
            run = dataclasses.replace(run, name=f"{run.name} {earlier_span}")
        self.runs.append(run)
        self._on_finish(run)


def _begin_evaluation(runs: Sequence[ComponentRun]) -> None:
    """Begins the progress that `components.evaluation.counting` advances, if the total is known."""
    folders = [run.outputs["examples"] for run in runs if run.name.startswith(_INGEST)]
    if folders:
        splits = [read_manifest(folder).splits["eval"] for folder in folders]
        progress.begin("records", sum(split.records for split in splits))


def _launch(
    metadata_path: str,
    pipeline: Pipeline,
    part: Part,
    runs: _Runs,
    earlier_span: int | None = None,
) -> None:
    """Runs a part of a pipeline; an earlier span's components are named after it."""
    finish = functools.partial(runs.finish, earlier_span=earlier_span)
    with _observe_components(metadata_path, runs.start, finish):
        LocalDagRunner().run(pipeline, _to_run_options(part))


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
        executed = metadata_path, info.execution_id
        run = read_execution(*executed, name, seconds, memory.peak_rss_mb)
        on_finish(dataclasses.replace(run, why=explain_execution(*executed)))
        return info

    launcher.Launcher.launch = observed
    try:
        yield
    finally:
        launcher.Launcher.launch = launch
