"""A data set's manifest carries a checksum of itself, and its index is checked against it.

For all who read a data set: what was damaged is named once, before anything is made of it.
"""

import functools
import hashlib
import json
import os

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

MANIFEST = "manifest.json"
INDEX = "index.parquet"
CHECKSUM = "manifest_sha256"
# What manifests had before they had a checksum: one that lacks it may have nothing else.
_UNSEALED = {
    *("format_version", "found", "written", "duplicates", "quarantined", "quarantine_reasons"),
    *("conflicting_labels", "straddling", "classes", "near_duplicates", "splits", "files"),
    "options",
}


def seal(manifest: dict) -> dict:
    """The manifest with its checksum: SHA-256 over its other keys as canonical JSON.

    Canonical is: keys sorted, no spaces, ASCII. So a manifest may be indented anew, not changed.
    """
    content = {key: value for key, value in manifest.items() if key != CHECKSUM}
    return {**content, CHECKSUM: _hash(content)}


def parse_manifest(content: bytes) -> dict:
    """Reads a manifest and checks it against its checksum, if it is not older than that.

    Raises:
      ValueError: if it is damaged.
    """
    manifest = json.loads(content)
    if not isinstance(manifest, dict):
        raise ValueError("it holds no names and values")
    if CHECKSUM not in manifest:
        if unknown := sorted(manifest.keys() - _UNSEALED):
            raise ValueError(f"it has {', '.join(unknown)}, but no {CHECKSUM}")
        return manifest
    if manifest[CHECKSUM] != _hash({k: v for k, v in manifest.items() if k != CHECKSUM}):
        raise ValueError(f"its {CHECKSUM} is not that of its content")
    return manifest


def read_manifest(data_dir: str) -> dict:
    """Reads a data set's manifest.

    Raises:
      FileNotFoundError: if there is none: the data set is not whole.
      UserError: if it is damaged.
    """
    path = files.join(data_dir, MANIFEST)
    try:
        return parse_manifest(files.read_file(path))
    except ValueError as error:
        raise UserError(
            f"{path!r} was changed since ingest wrote it ({error}); bring it back from a copy, or "
            "run ingest again."
        ) from error


def check_index(data_dir: str) -> None:
    """Makes sure that a local data set's index is the one that its manifest names.

    The index is hashed once for each time that it was written, at about a gigabyte a second: 62
    bytes a record. A data set without a manifest is taken as it is.

    Raises:
      UserError: if the index or the manifest was changed.
    """
    try:
        listed = read_manifest(data_dir)["files"][INDEX]
    except FileNotFoundError:
        return
    path = files.join(data_dir, INDEX)
    status = os.stat(path)
    if (
        status.st_size != listed["bytes"]
        or _hash_file(path, status.st_size, status.st_mtime_ns, status.st_ino) != listed["sha256"]
    ):
        raise unreadable_index(data_dir, f"it is not the file that {MANIFEST} names")


def unreadable_index(data_dir: str, why: object) -> UserError:
    """The error of an index that cannot be relied on."""
    return UserError(
        f"{files.join(data_dir, INDEX)!r} was changed since ingest wrote it ({why}), so no record "
        f"can be found by it; `image-pipeline verify {data_dir}` lists all damage. Bring it back "
        "from a copy, or run ingest again."
    )


@functools.lru_cache(maxsize=256)
def _hash_file(path: str, *state: int) -> str:
    """SHA-256 of a file whose size, time of change and inode are `state`."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash(manifest: dict) -> str:
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
