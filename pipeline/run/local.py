"""Runs the pipeline on this machine and collects its results."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.pipeline import Pipeline, RunOptions
from tfx.orchestration.portable import launcher

from image_pipeline.components import progress
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.record import further_columns
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.messages import suggest
from image_pipeline.components.transform.run import load_preprocessing_fn
from image_pipeline.history.reasons import explain_execution
from image_pipeline.pipeline import create_pipeline
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
    """
    part, metadata_path = plan.part, plan.folder.metadata_path

    def compose(fingerprint: str, span: int | None) -> Pipeline:
        return create_pipeline(
            plan.config,
            plan.images_dir,
            plan.folder.artifacts_dir,
            plan.pushed_dir,
            fingerprint,
            metadata_path=metadata_path,
            beam_args=plan.beam_args,
            span=span,
        )

    # Options that do not go together are refused here, and ends of the part that do not exist.
    pipeline = compose(plan.fingerprint, plan.span)
    names = [component.id for component in pipeline.components]
    for flag, name in (("--from", part.first), ("--to", part.last)):
        if name is not None and name not in names:
            raise UserError(
                f"{flag} names a component, got {name!r}; {suggest(name, names, most=3)}"
                f"known: {', '.join(names)}."
            )
    # A preprocessing_fn that cannot be used is refused before ingest; later parts have its graph.
    if part.first in (None, _INGEST, _TRANSFORM):
        further = further_columns(plan.config.ingest.column_types)
        load_preprocessing_fn(plan.config.view, plan.config.transform, further)

    started: list[str] = []
    runs: list[ComponentRun] = []
    launch, suffix = launcher.Launcher.launch, ""

    def observe(self: launcher.Launcher) -> Any:
        name = self._pipeline_node.node_info.id
        started.append(name)
        on_start(name)
        if name == "Evaluator":
            _begin_evaluation(runs)
        began = time.monotonic()
        with watch_memory() as memory:
            info = launch(self)
        executed = metadata_path, info.execution_id
        seconds = time.monotonic() - began
        run = read_execution(*executed, name + suffix, seconds, memory.peak_rss_mb)
        runs.append(dataclasses.replace(run, why=explain_execution(*executed)))
        on_finish(runs[-1])
        return info

    launcher.Launcher.launch = observe  # TFX's launcher has no hooks.
    try:
        # The window's earlier spans are ingested one by one: a run of TFX's makes one span.
        for span, fingerprint in plan.earlier.items() if part.first in (None, _INGEST) else ():
            suffix = f" {span}"
            LocalDagRunner().run(compose(fingerprint, span), RunOptions(to_nodes=[_INGEST]))
        suffix = ""
        ends = [None if name is None else [name] for name in (part.first, part.last)]
        options = None if part.is_whole else RunOptions(from_nodes=ends[0], to_nodes=ends[1])
        LocalDagRunner().run(pipeline, options)
    except Exception as error:
        explained = find_user_error(error)
        # Once a component has started, errors are its own.
        if not (explained or started) and part.first and isinstance(error, LookupError):
            explained = UserError(
                f"--from {part.first} takes what comes before it from the latest run in the same "
                "--output, but the latest run there does not have all of it; run once without "
                "--from."
            )
        if explained is None:
            raise
        raise explained from error
    finally:
        launcher.Launcher.launch = launch
    if not runs:
        raise UserError(
            f"No component lies between --from {part.first} and --to {part.last}: no data goes "
            "from one to the other; change one of them, or leave it out."
        )
    # What a part did not run is the latest run's.
    taken = [] if part.is_whole else read_taken(metadata_path, {run.name for run in runs})
    return [*taken, *runs]


def _begin_evaluation(runs: Sequence[ComponentRun]) -> None:
    """Begins the progress that `components.evaluation.counting` advances, if the total is known."""
    folders = [run.outputs["examples"] for run in runs if run.name.startswith(_INGEST)]
    if folders:
        splits = [read_manifest(folder).splits["eval"] for folder in folders]
        progress.begin("records", sum(split.records for split in splits))
