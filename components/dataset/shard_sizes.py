"""Whether shards are as long as their manifest says: what a request for each can tell."""

from collections.abc import Sequence

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import ListedShard
from image_pipeline.components.dataset.verify_shard import explain_unreadable
from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import map_in_order


def check_shard_sizes(data_dir: str, shards: Sequence[ListedShard]) -> None:
    """Looks at each shard's size, before much is done with the first ones.

    Args:
      data_dir: the data set's folder.
      shards: some of its manifest.

    Raises:
      UserError: naming the first shard that is missing, cut, or was replaced by another.
    """

    def find_fault(shard: ListedShard) -> str | None:
        try:
            size_bytes, _ = files.stat_file(files.join(data_dir, shard.file))
        except OSError as error:
            return explain_unreadable(error)
        if size_bytes == shard.bytes:
            return None
        return f"{size_bytes:,} bytes long, but its manifest says {shard.bytes:,}"

    faults = map_in_order(find_fault, shards, files.count_threads(data_dir))
    for shard, fault in zip(shards, faults, strict=True):
        if fault is not None:
            raise UserError(
                f"the shard {files.join(data_dir, shard.file)} is {fault}; restore it from a copy, "
                "or run ingest again."
            )
