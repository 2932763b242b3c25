"""TFX's metadata: checked before a run, since a file that exists must be intact; read after it."""

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from image_pipeline.components import files
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.messages import describe_error

if TYPE_CHECKING:
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2

SPAN_RESOLVER = "SpanResolver"
"""The node that finds earlier spans: its outputs are theirs, and none of its own."""

T = TypeVar("T")
# What SQLite may store in columns of ml-metadata's types.
_STORED_AS = {
    "INT": "'integer', 'null'",
    "INTEGER": "'integer', 'null'",
    "DOUBLE": "'real', 'integer', 'null'",
    "TEXT": "'text', 'null'",
    "VARCHAR": "'text', 'null'",
}

_TABLE = "MLMDEnv"  # ml-metadata's first one.


def check_metadata(metadata_path: str, artifacts_dir: str) -> None:
    """Refuses a damaged file, which would end the run deep inside TFX, and an emptied one.

    The latter would begin a new history, and count from 1 again in folders with earlier results.

    Args:
      metadata_path: the SQLite file; it need not exist.
      artifacts_dir: the results that it describes.

    Raises:
      UserError: if it is damaged, or empty though there are results.
    """
    if not files.is_local(metadata_path):
        return
    finding = None
    if os.path.exists(metadata_path):
        finding = _find_damage(metadata_path)
    elif _has_results(artifacts_dir):
        finding = "it is gone, but there are results that it should list"
    else:
        return
    if finding is None and not _has_tables(metadata_path) and _has_results(artifacts_dir):
        finding = "it is empty, but there are results that it should list"
    if finding is not None:
        raise _damaged(metadata_path, finding)


def open_metadata(metadata_path: str, *, only_read: bool = False) -> "metadata_store.MetadataStore":
    """Opens the SQLite file of TFX's metadata."""
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2

    connection = metadata_store_pb2.ConnectionConfig()
    connection.sqlite.filename_uri = metadata_path
    if only_read:
        connection.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
    return metadata_store.MetadataStore(connection)


def read_metadata(metadata_path: str, read: Callable[[Any], T]) -> T:
    """Calls a function with a file's `MetadataStore`, which may only be read.

    Raises:
      UserError: if the file is damaged.
    """
    check_metadata(metadata_path, "")
    if not _has_tables(metadata_path):
        raise _damaged(metadata_path, "it is empty")
    try:
        return read(open_metadata(metadata_path, only_read=True))
    except UserError:
        raise
    except Exception as error:  # Of a damaged file, ml-metadata raises many kinds.
        found = _damaged(metadata_path, describe_error(error))
        raise explain_shortage(error) or found from error


def _damaged(metadata_path: str, finding: str) -> UserError:
    return UserError(
        f"The metadata of earlier runs, {metadata_path!r}, cannot be used: {finding}. Restore "
        "a copy of it, or choose another --output; the results themselves are untouched."
    )


def _find_damage(path: str) -> str | None:
    """What SQLite says of the whole file; None if all is well."""
    if not os.path.isfile(path):
        return "it is not a regular file"
    try:
        with _open(path) as database:
            ((answer,), *_) = database.execute("PRAGMA quick_check(1)").fetchall()
            if answer == "ok":
                return _find_misfit(database)
    except sqlite3.DatabaseError as error:
        return str(error)
    return str(answer)


def _find_misfit(database: sqlite3.Connection) -> str | None:
    """Names a column with a value that SQLite allows in it, but at which ml-metadata aborts."""
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        for column, declared in database.execute(
            "SELECT name, type FROM pragma_table_info(?)", [table]
        ).fetchall():
            allowed = _STORED_AS.get(declared.partition("(")[0].upper())
            if (
                allowed
                and database.execute(
                    f'SELECT 1 FROM "{table}" WHERE typeof("{column}") NOT IN ({allowed}) LIMIT 1'
                ).fetchone()
            ):
                return f"the column {column} of its table {table} must be {declared} in each row"
    return None


def _has_tables(path: str) -> bool:
    with _open(path) as database:
        found = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [_TABLE])
        return found.fetchone() is not None


def _has_results(artifacts_dir: str) -> bool:
    if not (files.is_local(artifacts_dir) and os.path.isdir(artifacts_dir)):
        return False
    with os.scandir(artifacts_dir) as entries:
        return next(entries, None) is not None


def _open(path: str) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(path))


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
      why: why it was made again, or when what is reused was made.
    """

    name: str
    seconds: float
    peak_rss_mb: float
    reused: bool
    outputs: dict[str, str]
    spans: tuple[int, ...] = ()
    pushed_dir: str = ""
    why: str = ""


def read_execution(
    metadata_path: str, execution_id: int, name: str, seconds: float, peak_rss_mb: float
) -> ComponentRun:
    """The outputs of a component's execution, and whether they came from the cache."""
    store = open_metadata(metadata_path)
    (execution,) = store.get_executions_by_id([execution_id])
    return _describe(store, execution, name, seconds, peak_rss_mb)


def read_taken(metadata_path: str, ran: Collection[str]) -> list[ComponentRun]:
    """The components whose outputs the latest run took from the run before it."""
    store = open_metadata(metadata_path)
    latest = max(
        store.get_contexts_by_type("pipeline_run"), key=lambda run: run.create_time_since_epoch
    )
    taken = []
    for execution in sorted(store.get_executions_by_context(latest.id), key=lambda each: each.id):
        contexts = store.get_contexts_by_execution(execution.id)
        (node,) = (context.name for context in contexts if context.type == "node")
        if (name := node.rpartition(".")[2]) not in ran:
            taken.append(_describe(store, execution, name, 0.0, 0.0))
    return taken


def _describe(
    store: "metadata_store.MetadataStore",
    execution: "metadata_store_pb2.Execution",
    name: str,
    seconds: float,
    peak_rss_mb: float,
) -> ComponentRun:
    from ml_metadata.proto import metadata_store_pb2

    # A Resolver's outputs belong to other components.
    kinds = (metadata_store_pb2.Event.OUTPUT, metadata_store_pb2.Event.INTERNAL_OUTPUT)
    events = store.get_events_by_execution_ids([execution.id])
    names = {each.artifact_id: each.path.steps[0].key for each in events if each.type in kinds}
    outputs, spans, pushed_dir = {}, [], ""
    for artifact in store.get_artifacts_by_id(list(names)):
        outputs[names[artifact.id]] = artifact.uri
        noted = artifact.custom_properties
        if "span" in noted:
            spans.append(noted["span"].int_value)
        if "pushed_destination" in noted:
            pushed_dir = noted["pushed_destination"].string_value
    reused = execution.last_known_state == metadata_store_pb2.Execution.CACHED
    return ComponentRun(
        name, seconds, peak_rss_mb, reused, outputs, tuple(sorted(spans)), pushed_dir
    )
