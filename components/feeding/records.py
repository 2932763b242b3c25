"""The records of shards, by their index: the one that ingest wrote, or one that a scan makes."""

import logging
from collections.abc import Sequence

import numpy as np

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import find_index
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import BatchReader
from image_pipeline.components.feeding.rules import PIXELS
from image_pipeline.components.feeding.shard_files import match_files
from image_pipeline.components.record_files.scanned import scan_files
from image_pipeline.components.rules import check
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


def open_records(
    files: Sequence[str],
    view: ViewOptions | None,
    feeding: FeedingOptions,
    passes: Passes,
    columns: Sequence[record.Column] = (),
    rows: np.ndarray | None = None,
) -> BatchReader:
    """Opens shards for reading in any order; those without an index of ingest's are scanned first.

    Args:
      files: shards, or patterns of them.
      view: the model's input size; None if no views are made.
      feeding: which records, in which batches.
      passes: which epochs are read.
      columns: further columns to read.
      rows: see `BatchReader`.

    Raises:
      UserError: if a pattern matches no file, a file without an index is damaged, or what is asked
        for needs columns of an index that ingest wrote.
    """
    paths = match_files(files)
    index = find_index(paths)
    if index is None:
        if needing := feeding.table_options():
            raise UserError(
                f"feeding.{', '.join(needing)} needs the index of a data set, but {paths[0]} has "
                "none beside its Split folder; ingest the files, or leave it out."
            )
        index = scan_files(paths, feeding.cache_folder)
        if view is not None:
            check(PIXELS[:1], stored=index, images=f"the images of {paths[0]!r}", view=view)
        _LOG.info("%d records, by an index of a scan: ingest wrote none beside them.", len(index))
    return BatchReader(index, view or ViewOptions(), feeding, passes, columns, rows)
