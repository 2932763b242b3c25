"""Whether a data set is there with all of its files, and copies of it on this machine.

What is there is judged by sizes; `verify` reads the files.
"""

import collections
import os
import shutil
from collections.abc import Collection, Iterator, Mapping

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import ListedFile, copy_file
from image_pipeline.components.dataset.manifest import (
    Manifest,
    read_manifest,
    read_whole_manifest,
)
from image_pipeline.components.dataset.paths import INDEX, MANIFEST, ROWS
from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import map_in_order

_AT_ONCE = 16  # Files; a copy holds 8 MiB of each.


def find_complete(data_dir: str) -> Manifest | None:
    """Reads the manifest of a data set of which every file is there and has its size.

    Returns:
      The manifest; None if there is none, or it is damaged, or a file is not as it says.
    """
    try:
        manifest = read_manifest(data_dir)
    except (FileNotFoundError, UserError):
        return None
    sizes = {shard.file: shard.bytes for _, _, shard in manifest.list_shards()}
    sizes |= {name: listed.bytes for name, listed in manifest.files.items()}
    return manifest if next(_find_faults(data_dir, sizes), None) is None else None


def check_shard_sizes(data_dir: str, manifest: Manifest, splits: Collection[str]) -> None:
    """Looks at the size of each shard, before much is done with the first ones.

    Raises:
      UserError: naming the first shard that is missing, cut, or was replaced by another.
    """
    listed = manifest.list_shards()
    sizes = {shard.file: shard.bytes for split, _, shard in listed if split in splits}
    try:
        found = next(_find_faults(data_dir, sizes), None)
    except OSError as error:
        raise UserError(
            f"the shards of {data_dir} cannot be listed: {error}; fix that and run again."
        ) from error
    if found is not None:
        name, fault = found
        raise UserError(
            f"the shard {files.join(data_dir, name)} is {fault}; restore it from a copy, or run "
            "ingest again."
        )


def _find_faults(data_dir: str, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The files that do not have their size, and what they are instead."""

    def find_fault(name: str) -> str | None:
        try:
            size_bytes, _ = files.stat_file(files.join(data_dir, name))
        except FileNotFoundError:
            return "missing"
        if size_bytes == sizes[name]:
            return None
        return f"{size_bytes:,} bytes long, but its manifest says {sizes[name]:,}"

    faults = zip(sizes, map_in_order(find_fault, sizes, _AT_ONCE), strict=True)
    return ((name, fault) for name, fault in faults if fault is not None)


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
    shards = [shard for _, _, shard in manifest.list_shards()]
    wanted = {shard.file: ListedFile(bytes=shard.bytes, sha256=shard.sha256) for shard in shards}
    wanted |= {name: manifest.files[name] for name in (INDEX, ROWS) if name in manifest.files}
    os.makedirs(folder, exist_ok=True)
    needed_bytes, free_bytes = sum(w.bytes for w in wanted.values()), shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise UserError(
            f"{folder} must have room for the {needed_bytes / 1e9:.2f} GB of {uri}, but its disk "
            f"has {free_bytes / 1e9:.2f} GB free; give this step a larger disk there."
        )

    def copy(name: str) -> None:
        found = copy_file(files.join(uri, name), files.join(folder, name))
        if found != wanted[name]:
            raise UserError(
                f"{files.join(uri, name)} was changed: the SHA-256 of its {wanted[name].bytes} "
                f"bytes must be {wanted[name].sha256}, got {found.sha256} of {found.bytes}; "
                "run ingest again."
            )

    collections.deque(map_in_order(copy, wanted, _AT_ONCE), maxlen=0)
    copy_file(files.join(uri, MANIFEST), files.join(folder, MANIFEST))
