"""Checks TFX's metadata before a run: a file that exists must be intact."""

import contextlib
import os
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from image_pipeline.components import files
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.messages import describe_error

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


def read_metadata(metadata_path: str, read: Callable[[Any], T]) -> T:
    """Calls a function with a file's `MetadataStore`, which may only be read.

    Raises:
      UserError: if the file is damaged.
    """
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2

    check_metadata(metadata_path, "")
    connection = metadata_store_pb2.ConnectionConfig()
    connection.sqlite.filename_uri = metadata_path
    connection.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
    try:
        return read(metadata_store.MetadataStore(connection))
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
        return "it is no regular file"
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
