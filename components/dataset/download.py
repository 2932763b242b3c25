"""Copies a data set from a store to a local disk, for those who read it at random or often."""

import collections
import os
import shutil

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import ListedFile, copy_file
from image_pipeline.components.dataset.manifest import Manifest, read_whole_manifest
from image_pipeline.components.dataset.paths import INDEX, MANIFEST
from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import map_in_order

_FILES_AT_ONCE = 16  # Each holds 8 MiB at a time.


def download_data_set(uri: str, folder: str) -> None:
    """Copies shards, index and, last, the manifest; compares all checksums.

    Args:
      uri: the data set's folder.
      folder: on this machine; a complete data set there is left as it is.

    Raises:
      UserError: if the disk has no room, or what was read is not what the manifest says.
    """
    manifest = read_whole_manifest(uri)
    if files.is_file(files.join(folder, MANIFEST)):
        return
    wanted = _list_wanted(manifest)
    _check_room(sum(listed.bytes for listed in wanted.values()), uri, folder)

    def copy(name: str) -> None:
        found = copy_file(files.join(uri, name), files.join(folder, name))
        if found != wanted[name]:
            raise UserError(
                f"{files.join(uri, name)} was changed: the SHA-256 of its {wanted[name].bytes} "
                f"bytes must be {wanted[name].sha256}, got {found.sha256} of {found.bytes}; "
                "run ingest again."
            )

    collections.deque(map_in_order(copy, wanted, _FILES_AT_ONCE), maxlen=0)
    copy_file(files.join(uri, MANIFEST), files.join(folder, MANIFEST))


def _list_wanted(manifest: Manifest) -> dict[str, ListedFile]:
    """The files to copy, by their paths below the data set's folder."""
    shards = [shard for _, _, shard in manifest.list_shards()]
    listed = {shard.file: ListedFile(bytes=shard.bytes, sha256=shard.sha256) for shard in shards}
    return listed | {INDEX: manifest.files[INDEX]}


def _check_room(needed_bytes: int, uri: str, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise UserError(
            f"{folder} must have room for the {needed_bytes / 1e9:.2f} GB of {uri}, but its disk "
            f"has {free_bytes / 1e9:.2f} GB free; give this step a larger disk there."
        )
