"""Runs the pipeline on this machine and gathers what it did."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2
from tfx import v1 as tfx
from tfx.orchestration.portable import launcher

from components import files
from components.errors import find_user_error
from pipeline.config import PipelineConfig
from pipeline.memory import watch_memory
from pipeline.pipeline import create_pipeline


@dataclasses.dataclass(frozen=True)
class ComponentRun:
    """What one component did.

    Attributes:
      name: the component's.
      seconds: wall time.
      peak_rss_mb: largest resident memory of the process while it ran.
      reused: whether TFX took the outputs of an earlier run.
      outputs: each output's name and URI.
    """

    name: str
    seconds: float
    peak_rss_mb: float
    reused: bool
    outputs: dict[str, str]


def run_locally(
    config: PipelineConfig,
    images_dir: str,
    output_dir: str,
    fingerprint: str,
    beam_args: Sequence[str],
    on_start: Callable[[str], Any],
    on_finish: Callable[[ComponentRun], Any],
) -> list[ComponentRun]:
    """Runs the pipeline with TFX's LocalDagRunner.

    Args:
      config: of the pipeline.
      images_dir: the folder of images.
      output_dir: holds, in the end, `artifacts/`, `metadata.db` and `pushed_model/`.
      fingerprint: of the images.
      beam_args: Beam flags; they name the runner and its mode.
      on_start: called with a component's name before it runs.
      on_finish: called after it ran.

    Returns:
      Every component's run, in order.

    Raises:
      UserError: if the person who called can put it right.
    """
    metadata_path = files.join(output_dir, "metadata.db")
    pipeline = create_pipeline(
        config,
        images_dir,
        files.join(output_dir, "artifacts"),
        pushed_dir(output_dir),
        fingerprint,
        metadata_path,
        tuple(beam_args),
    )
    runs: list[ComponentRun] = []

    def keep(run: ComponentRun) -> None:
        runs.append(run)
        on_finish(run)

    try:
        with _observe_components(metadata_path, on_start, keep):
            tfx.orchestration.LocalDagRunner().run(pipeline)
    except Exception as error:
        raise find_user_error(error) or error from error
    return runs


def pushed_dir(output_dir: str) -> str:
    """Where a run's models are pushed, a folder for each version."""
    return files.join(output_dir, "pushed_model")


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
        reused, outputs = _read_execution(metadata_path, info.execution_id)
        seconds = time.monotonic() - started
        on_finish(ComponentRun(name, seconds, memory.peak_rss_mb, reused, outputs))
        return info

    with mock.patch.object(launcher.Launcher, "launch", observed):
        yield


def _read_execution(metadata_path: str, execution_id: int) -> tuple[bool, dict[str, str]]:
    """Whether the execution was cached, and its outputs, from TFX's metadata."""
    connection = metadata_store_pb2.ConnectionConfig()
    connection.sqlite.filename_uri = metadata_path
    store = metadata_store.MetadataStore(connection)
    (execution,) = store.get_executions_by_id([execution_id])
    events = [
        event
        for event in store.get_events_by_execution_ids([execution_id])
        if event.type == metadata_store_pb2.Event.OUTPUT
    ]
    uris = {
        artifact.id: artifact.uri
        for artifact in store.get_artifacts_by_id([event.artifact_id for event in events])
    }
    outputs = {event.path.steps[0].key: uris[event.artifact_id] for event in events}
    reused = execution.last_known_state == metadata_store_pb2.Execution.CACHED
    return reused, outputs
