"""The records of shards, by their index: the one that ingest wrote, or one that a scan makes."""

import logging
from collections.abc import Sequence

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import find_index
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.pixel_types import check_type
from image_pipeline.components.feeding.reader import BatchReader
from image_pipeline.components.feeding.shard_files import match_files
from image_pipeline.components.feeding.streaming import StreamedRecords
from image_pipeline.components.files import check_known_to_tensorflow
from image_pipeline.components.record_files.scanned import scan_files
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


def open_records(
    files: Sequence[str],
    view: ViewOptions,
    feeding: FeedingOptions,
    passes: Passes,
    columns: Sequence[record.Column] = (),
) -> BatchReader | StreamedRecords:
    """Opens shards for reading in any order; those without an index of ingest's are scanned first.

    Args:
      files: shards, or patterns of them.
      view: the model's input size.
      feeding: which records, in which batches.
      passes: which epochs are read.
      columns: further columns to read.

    Raises:
      UserError: if a pattern matches no file, a file without an index is damaged, or what is asked
        for needs columns of an index that ingest wrote.
    """
    served = passes.training and feeding.data_service is not None
    if served and files:  # Its workers are TensorFlow's, which call no Python.
        check_known_to_tensorflow(files[0], "with feeding.data_service, the data set")
    paths = match_files(files)
    if feeding.source == "streaming" or served:
        why = "feeding.data_service is set" if served else "feeding.source=streaming"
        _LOG.info("Streaming %d shards through a shuffle window: %s.", len(paths), why)
        return StreamedRecords(paths, view, feeding, passes, columns)
    index = find_index(paths)
    if index is None:
        if needing := feeding.table_options():
            raise UserError(
                f"feeding.{', '.join(needing)} needs the index of a data set, but {paths[0]} has "
                "none beside its Split folder; ingest the files, or leave it out."
            )
        index = scan_files(paths, feeding.cache_folder)
        check_type(index.dtype, view, paths[0])
        _LOG.info("%d records, by an index of a scan: ingest wrote none beside them.", len(index))
    return BatchReader(index, view, feeding, passes, columns)
