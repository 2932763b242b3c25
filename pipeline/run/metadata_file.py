"""Checks TFX's metadata before a run: a file that exists must be intact."""

import contextlib
import os
import sqlite3

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

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
        raise UserError(
            f"The metadata of earlier runs, {metadata_path!r}, cannot be used: {finding}. Restore "
            "a copy of it, or choose another --output; the results themselves are untouched."
        )


def _find_damage(path: str) -> str | None:
    """What SQLite says of the whole file; None if all is well."""
    try:
        with _open(path) as database:
            ((answer,), *_) = database.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if answer == "ok" else str(answer)


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
