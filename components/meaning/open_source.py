"""The source that `--images` and ingest's options describe."""

import dataclasses
import itertools
import os
import shlex
from collections.abc import Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.frames import Frames
from image_pipeline.components.sources.pairs import Pairs
from image_pipeline.components.sources.references import Source
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.tables.rows_once import TableRows


def open_complete(
    images: str, options: IngestOptions, rows: TableRows | None = None
) -> tuple[Source, IngestOptions]:
    """The source, and the options with all that a table says: it is read once for both.

    Args:
      images: the folder, archive or table, or its URI; or a generator.
      options: of ingest.
      rows: a table's, if they were read already, perhaps for other options.

    Raises:
      UserError: as `complete_options` does.
    """
    if rows is None and kind_of(images).is_table:
        rows = TableRows(images, options)
    rows = rows and rows.of_options(options)
    options = complete_options(images, options, rows)
    return open_source(images, options, rows and rows.of_options(options)), options


def open_source(images: str, options: IngestOptions, rows: TableRows | None = None) -> Source:
    """The source of images, of which videos may be some.

    Args:
      images: the folder, archive or table, or its URI; or a generator.
      options: of ingest; of a table, as `complete_options` gives them.
      rows: a table's, if they were read already.
    """
    kind = kind_of(images)
    found: Any = kind.open(images, options)
    found = found if rows is None else dataclasses.replace(found, rows=rows)
    if not kind.has_rows and options.masks is not None and options.masks.images is not None:
        found = Pairs(found, options.masks.images, options.masks.masks or "")
    return found if options.video is None else Frames(found, options.video, options.follow_links)


def no_usable_row(images: str, rows: int, problem: str, outside: Sequence[str] = ()) -> UserError:
    """The error of a table of which no row can be used.

    Args:
      images: the table.
      rows: how many it has.
      problem: of the first one.
      outside: the first and the last path by name, if all lead out of the root.
    """
    way_out = " Paths start from the table's folder, unless ingest.root_dir says otherwise."
    way_out *= "no file" in problem and not images.startswith(files.CODE_PREFIXES)
    if outside:  # The problem names the way out; a better one is the very folder.
        folder = _common_folder(*outside)
        option = shlex.quote(f"ingest.root_dir={folder}")
        way_out = f" If these are its images, set {option}, which holds all of them."
        if files.is_local(folder) and not os.path.isdir(folder):
            option = shlex.quote(f"ingest.path_prefix={folder}/")
            way_out = f" Of another machine's paths, {option} takes the beginning off."
        way_out *= folder != ""
    return UserError(f"None of {rows:,} rows of {images!r} can be used; {problem}.{way_out}")


def _common_folder(first: str, last: str) -> str:
    """The folder of all absolute paths or URIs between two, by name; empty if there is none."""
    parts = zip(first.split("/")[:-1], last.split("/")[:-1], strict=False)
    same = [one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], parts)]
    is_whole = same[:1] == [""] or (len(same) > 2 and same[0].endswith(":"))
    return ("/".join(same) or "/") if is_whole else ""
