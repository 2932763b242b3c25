"""The two ways to read records: by their index, or shard by shard from the beginning."""

import logging
from collections.abc import Callable, Sequence

import tensorflow as tf

from image_pipeline.components.dataset.index import is_indexed
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.indexed import IndexedRecords
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.streaming import StreamedRecords
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


def open_records(
    paths: list[str],
    feeding: FeedingOptions,
    view: ViewOptions,
    training: bool,
    seed: int,
    columns: Sequence[str] = (),
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> IndexedRecords | StreamedRecords:
    """Chooses between the index and streaming; both say in one line what was chosen, and why.

    Args:
      paths: shards.
      feeding: the source, and what needs it.
      view: the model's input size.
      training: whether every epoch has an order of its own.
      seed: decides the order, together with the epoch.
      columns: feature keys of further scalar columns to read.
      keep: see `StreamedRecords`; makes the records stream.

    Raises:
      UserError: if what is asked for needs an index, and there is none.
    """
    served = training and feeding.data_service is not None
    streams = feeding.source == "streaming" or keep is not None or served
    if not streams and is_indexed(paths):
        return IndexedRecords(paths, feeding, view, training, seed, columns)
    if feeding.source == "indexed" or feeding.index_options():
        needing = feeding.index_options() or ["source=indexed"]
        raise UserError(
            f"feeding.{', '.join(needing)} needs shards with an index on a local disk, but "
            f"{paths[0]} has none beside its Split folder; ingest again, or stream without it."
        )
    _LOG.info("Streaming %d shards through a shuffle window: %s.", len(paths), _why(feeding, keep))
    return StreamedRecords(paths, feeding, view, training, seed, columns, keep)


def _why(feeding: FeedingOptions, keep: Callable[[tf.Tensor], tf.Tensor] | None) -> str:
    """Why records stream, in words."""
    if feeding.data_service is not None:
        return "feeding.data_service asks for it"
    if feeding.source == "streaming" or keep is not None:
        return "feeding.source asks for it"
    return "they have no index beside them on a local disk"
