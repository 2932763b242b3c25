"""The two ways to read records: by their index, or shard by shard from the beginning."""

import logging
from collections.abc import Callable

import tensorflow as tf

from components.errors import UserError
from components.feeding.index import is_indexed
from components.feeding.indexed import IndexedRecords
from components.feeding.options import FeedingOptions
from components.feeding.streaming import StreamedRecords

_LOG = logging.getLogger(__name__)


def open_records(
    paths: list[str],
    feeding: FeedingOptions,
    training: bool,
    seed: int,
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> IndexedRecords | StreamedRecords:
    """Chooses between the index and streaming, and says so.

    Args:
      paths: shards.
      feeding: the source, and what needs it.
      training: whether every epoch has an order of its own.
      seed: decides the order, together with the epoch.
      keep: see `StreamedRecords`; makes the records stream.

    Raises:
      UserError: if what is asked for needs an index, and there is none.
    """
    served = training and feeding.data_service is not None
    streams = feeding.source == "streaming" or keep is not None or served
    if not streams and is_indexed(paths):
        _LOG.info("Reading %d shards by their index: any order, at once.", len(paths))
        return IndexedRecords(paths, feeding, training, seed)
    if feeding.source == "indexed" or feeding.index_options():
        needing = feeding.index_options() or ["source=indexed"]
        raise UserError(
            f"feeding.{', '.join(needing)} needs shards with an index on a local disk, but "
            f"{paths[0]} has none beside its Split folder; ingest again, or stream without it."
        )
    _LOG.info("Streaming %d shards: asked for, or no index on a local disk.", len(paths))
    return StreamedRecords(paths, feeding, training, seed, keep)
