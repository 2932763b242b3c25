"""Whether a data set is there with all of its files: by their sizes, where `verify` reads them."""

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

    def is_there(name: str) -> bool:
        try:
            return files.stat_file(files.join(data_dir, name))[0] == sizes[name]
        except FileNotFoundError:
            return False

    return manifest if all(map_in_order(is_there, sizes, _AT_ONCE)) else None
