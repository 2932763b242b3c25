"""What an ingest of few images would come to, without Beam: it fails here as it would there."""

import tempfile
from collections.abc import Sequence

from image_pipeline.components.ingest.find_depth import complete_depth, count_levels
from image_pipeline.components.ingest.partition import judge_rows
from image_pipeline.components.ingest.prepare import count_threads, prepare_source
from image_pipeline.components.ingest.prepared_rows import count_unusable, write_rows
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.threads import map_in_order

_NAME = "rehearsal"


def rehearse(source: Source, refs: Sequence[ImageRef], options: IngestOptions) -> None:
    """Prepares all images and places them in splits, and writes nothing.

    Args:
      source: of the files.
      refs: all of them, in their order.
      options: of ingest, complete.

    Raises:
      UserError: as ingest raises it: if too many images are bad or have the bytes of another one
        with another label; `EmptySplit` if a split would be empty.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = WorkFolder(folder)
        if options.prepare.depth.must_be_found:
            options = complete_depth(count_levels(refs, source, work, options), options)

        def prepare(ref: ImageRef) -> tuple[dict, bytes]:
            return prepare_source(ref, source, work, options)

        results = map_in_order(prepare, refs, count_threads(source, options))
        bad, skipped = count_unusable(write_rows(results, _NAME, work, options))
        judge_rows([PreparedChunk(0, True, len(refs), bad, _NAME, skipped)], work, options)
