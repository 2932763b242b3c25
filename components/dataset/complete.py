"""Whether a data set is there with all of its files: by their sizes, where `verify` reads them."""

from collections.abc import Collection, Iterator, Mapping

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import Manifest, read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import map_in_order

_AT_ONCE = 16


def find_complete(data_dir: str) -> Manifest | None:
    """Reads the manifest of a data set of which every file is there and has its size.

    Args:
      data_dir: the folder where it might be.

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

    Args:
      data_dir: the data set's folder.
      manifest: the data set's.
      splits: those whose shards are looked at.

    Raises:
      UserError: naming the first shard that is missing, cut, or was replaced by another.
    """
    listed = manifest.list_shards()
    sizes = {shard.file: shard.bytes for split, _, shard in listed if split in splits}
    try:
        found = next(_find_faults(data_dir, sizes), None)
    except OSError as error:
        raise UserError(
            f"the shards of {data_dir} cannot be looked at: {error}; put that right and run again."
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
