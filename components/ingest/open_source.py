"""The source that `--images` and ingest's options describe."""

from collections.abc import Iterable

from image_pipeline.components.archives import archive
from image_pipeline.components.errors import UserError
from image_pipeline.components.generators import generator
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.sources import own_source
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.frames import Frames
from image_pipeline.components.sources.options import GeneratorOptions
from image_pipeline.components.sources.pairs import Pairs
from image_pipeline.components.sources.references import ImageRef, Source, fingerprint_refs
from image_pipeline.components.tables import table, table_files


def open_source(images: str, options: IngestOptions) -> Source:
    """The source of images, of which videos may be some.

    Args:
      images: the folder, archive or table, or its URI; or a generator.
      options: of ingest; of a table, as `complete_options` gives them.
    """
    found = _open_files(images, options)
    return found if options.video is None else Frames(found, options.video)


def _open_files(images: str, options: IngestOptions) -> Source:
    """Tells a table from a folder, and that from one of images and masks."""
    if own_source.is_own_source(images):
        return own_source.OwnSource(images)
    if generator.is_generator(images):
        return open_generator(images, options)
    if table_files.is_table(images):
        return table.Table(images, options)
    is_archive = archive.is_archive(images)
    found: Source = archive.Archive(images) if is_archive else Folder(images, options.follow_links)
    if options.masks is not None and options.masks.images is not None:
        return Pairs(found, options.masks.images, options.masks.masks or "")
    return found


def open_generator(images: str, options: IngestOptions) -> generator.Generator:
    """The source of `generator:MODULE:FUNCTION`."""
    return generator.Generator(images, options, options.generator or GeneratorOptions())


def has_rows(images: str) -> bool:
    """Whether what is given has rows with columns: a table, or a generator's items."""
    return table_files.is_table(images) or generator.is_generator(images)


def fingerprint(images: str, options: IngestOptions, refs: Iterable[ImageRef]) -> str:
    """Of the references that `open_source` lists, and of what a table's columns are called."""
    columns = (options.columns, options.column_types)
    if generator.is_generator(images):
        return fingerprint_refs(refs, (*columns, open_generator(images, options).version))
    return fingerprint_refs(refs, columns if table_files.is_table(images) else None)


def no_usable_row(images: str, rows: int, problem: str) -> UserError:
    """The error of a table of which no row can be used.

    Args:
      images: the table.
      rows: how many it has.
      problem: of the first one.
    """
    return UserError(
        f"None of {rows:,} rows of {images!r} can be used; {problem}. Paths start from the table's "
        "folder, unless ingest.root_dir says otherwise."
    )
