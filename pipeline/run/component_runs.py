"""What TFX's metadata says about the executions of a run."""

import dataclasses
from collections.abc import Collection, Iterator

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2

from image_pipeline.history.reasons import explain_execution

# A Resolver's outputs belong to other components.
_OUTPUT = (metadata_store_pb2.Event.OUTPUT, metadata_store_pb2.Event.INTERNAL_OUTPUT)


@dataclasses.dataclass(frozen=True)
class ComponentRun:
    """What one component did.

    Attributes:
      name: the component's name.
      seconds: wall time.
      peak_rss_mb: largest resident memory of the process while it ran.
      reused: whether TFX took the outputs of an earlier run.
      outputs: each output's name and URI; the last URI, where there are several.
      spans: the spans of its outputs, in order.
      pushed_dir: where it pushed a model; "" if it did not.
      why: why it was made anew, or when what is reused was made.
    """

    name: str
    seconds: float
    peak_rss_mb: float
    reused: bool
    outputs: dict[str, str]
    spans: tuple[int, ...] = ()
    pushed_dir: str = ""
    why: str = ""


def open_metadata(metadata_path: str) -> metadata_store.MetadataStore:
    """Opens the SQLite file of TFX's metadata."""
    connection = metadata_store_pb2.ConnectionConfig()
    connection.sqlite.filename_uri = metadata_path
    return metadata_store.MetadataStore(connection)


def read_execution(
    metadata_path: str, execution_id: int, name: str, seconds: float, peak_rss_mb: float
) -> ComponentRun:
    """The outputs of a component's execution, and whether they came from the cache."""
    store = open_metadata(metadata_path)
    (execution,) = store.get_executions_by_id([execution_id])
    run = _describe(store, execution, name, seconds, peak_rss_mb)
    return dataclasses.replace(run, why=explain_execution(metadata_path, execution_id))


def read_taken(metadata_path: str, ran: Collection[str]) -> list[ComponentRun]:
    """The components whose outputs the latest run took from the run before it.

    Args:
      metadata_path: file of TFX's metadata.
      ran: the components that did run.
    """
    store = open_metadata(metadata_path)
    latest = max(
        store.get_contexts_by_type("pipeline_run"), key=lambda run: run.create_time_since_epoch
    )
    executions = sorted(store.get_executions_by_context(latest.id), key=lambda each: each.id)
    taken = ((_name_component(store, each), each) for each in executions)
    return [_describe(store, each, name, 0.0, 0.0) for name, each in taken if name not in ran]


def _name_component(
    store: metadata_store.MetadataStore, execution: metadata_store_pb2.Execution
) -> str:
    contexts = store.get_contexts_by_execution(execution.id)
    (name,) = (context.name for context in contexts if context.type == "node")
    return name.rpartition(".")[2]


def _describe(
    store: metadata_store.MetadataStore,
    execution: metadata_store_pb2.Execution,
    name: str,
    seconds: float,
    peak_rss_mb: float,
) -> ComponentRun:
    outputs, spans, pushed_dir = {}, [], ""
    for output, artifact in _read_outputs(store, execution.id):
        outputs[output] = artifact.uri
        said = artifact.custom_properties
        if "span" in said:
            spans.append(said["span"].int_value)
        if "pushed_destination" in said:
            pushed_dir = said["pushed_destination"].string_value
    reused = execution.last_known_state == metadata_store_pb2.Execution.CACHED
    return ComponentRun(
        name, seconds, peak_rss_mb, reused, outputs, tuple(sorted(spans)), pushed_dir
    )


def _read_outputs(
    store: metadata_store.MetadataStore, execution_id: int
) -> Iterator[tuple[str, metadata_store_pb2.Artifact]]:
    events = store.get_events_by_execution_ids([execution_id])
    names = {each.artifact_id: each.path.steps[0].key for each in events if each.type in _OUTPUT}
    for artifact in store.get_artifacts_by_id(list(names)):
        yield names[artifact.id], artifact
