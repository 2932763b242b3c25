"""The two ways to read records: by their index, or shard by shard from the beginning."""

import logging
from collections.abc import Sequence

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import find_index
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import BatchReader
from image_pipeline.components.feeding.shard_files import match_files
from image_pipeline.components.feeding.streaming import StreamedRecords
from image_pipeline.components.files import check_known_to_tensorflow
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


def open_records(
    files: Sequence[str],
    view: ViewOptions,
    feeding: FeedingOptions,
    passes: Passes,
    columns: Sequence[record.Column] = (),
) -> BatchReader | StreamedRecords:
    """Chooses between the index and streaming; logs in one line which, and why.

    Args:
      files: shards, or patterns of them.
      view: the model's input size.
      feeding: the source, and what needs it.
      passes: which epochs are read.
      columns: further scalar columns to read.

    Raises:
      UserError: if a pattern matches no file, or what is asked for needs an index, and there is
        none.
    """
    served = passes.training and feeding.data_service is not None
    if served and files:  # Its workers are TensorFlow's, which call no Python.
        check_known_to_tensorflow(files[0], "with feeding.data_service, the data set")
    paths = match_files(files)
    streams = feeding.source == "streaming" or served
    index = None if streams else find_index(paths)
    if index is not None:
        return BatchReader(index, view, feeding, passes, columns)
    if feeding.source == "indexed" or feeding.index_options():
        needing = feeding.index_options() or ["source=indexed"]
        raise UserError(
            f"feeding.{', '.join(needing)} needs shards with an index, but {paths[0]} "
            "has none beside its Split folder; ingest again, or stream without it."
        )
    _LOG.info("Streaming %d shards through a shuffle window: %s.", len(paths), _why(feeding))
    return StreamedRecords(paths, view, feeding, passes, columns)


def _why(feeding: FeedingOptions) -> str:
    """Why records stream, in words."""
    if feeding.data_service is not None:
        return "feeding.data_service is set"
    if feeding.source == "streaming":
        return "feeding.source=streaming"
    return "there is no index beside them"
