"""What kind of source is given as images: decided here, once, for all that treat kinds differently.

Whoever needs to know asks for what matters there, such as whether there are rows, and not for each
kind by its name.
"""

import dataclasses
from collections.abc import Callable

from image_pipeline.components.archives.archive import Archive, is_archive
from image_pipeline.components.generators.generator import Generator, is_generator
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.options import GeneratorOptions
from image_pipeline.components.sources.own_source import OwnSource, is_own_source
from image_pipeline.components.sources.references import Source
from image_pipeline.components.tables.table import Table
from image_pipeline.components.tables.table_files import is_table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """How sources of a kind are opened, and what they have in common.

    Attributes:
      open: makes the source of what is given as images; reads nothing yet.
      has_rows: whether an image is a row with columns, which say what it is; or else its path does.
      has_parts: whether images may be parts of a file, and so be left in place.
      lists_images: whether `list` gives images, which can be read again. Of a generator it gives
        shards: how many images these hold, and what they are, is known when they have run.
      is_dated: whether references have sizes and times, so that an image that was replaced is
        noticed whatever the root is called.
    """

    open: Callable[[str, IngestOptions], Source]
    has_rows: bool = False
    has_parts: bool = False
    lists_images: bool = True
    is_dated: bool = True


def open_generator(images: str, options: IngestOptions) -> Generator:
    """The source of `generator:MODULE:FUNCTION`."""
    return Generator(images, options, options.generator or GeneratorOptions())


FOLDER = Kind(open=lambda images, options: Folder(images, options.follow_links))
ARCHIVE = Kind(open=lambda images, _: Archive(images), has_parts=True)
TABLE = Kind(
    open=lambda i, o: Table(i, o, o.follow_links), has_rows=True, has_parts=True, is_dated=False
)
GENERATOR = Kind(open=open_generator, has_rows=True, lists_images=False)
OWN_SOURCE = Kind(open=lambda images, _: OwnSource(images), is_dated=False)


def kind_of(images: str) -> Kind:
    """The kind of what is given as images; a folder, if it is nothing else.

    An archive whose members are named as a WebDataset's is a table.
    """
    if is_own_source(images):
        return OWN_SOURCE
    if is_generator(images):
        return GENERATOR
    if is_table(images):
        return TABLE
    return ARCHIVE if is_archive(images) else FOLDER
