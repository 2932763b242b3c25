"""The source that `--images` and ingest's options describe."""

from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.sources import table, table_columns
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.references import Source


def open_source(images: str, options: IngestOptions) -> Source:
    """Tells a table from a folder.

    Args:
      images: the folder or table, or its URI.
      options: of ingest; of a table, as `complete_options` gives them.
    """
    if table.is_table(images):
        return table.Table(images, options)
    return Folder(images, options.follow_links)


def complete_options(images: str, options: IngestOptions) -> IngestOptions:
    """The options with all that a table says of its columns; for a folder, as they are.

    What was completed once stays as it is.

    Raises:
      UserError: if the options do not fit the table, or it cannot be read, or they are a table's
        and there is none.
    """
    if table.is_table(images):
        return table_columns.complete_options(images, options)
    return options
