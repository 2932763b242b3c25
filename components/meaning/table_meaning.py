"""What a table means, where its columns' names alone do not say it: found from all of its rows.

What is inferred becomes options, so that it is inferred once, and printed; what cannot be known is
refused with the options for each meaning.
"""

import os
import re

from image_pipeline.components import files
from image_pipeline.components.meaning.box_columns import find_box_rows
from image_pipeline.components.meaning.column_values import first_rows
from image_pipeline.components.meaning.image_columns import find_images
from image_pipeline.components.meaning.label_columns import find_labels, find_split
from image_pipeline.components.meaning.mask_columns import (
    find_drawn,
    find_run_lengths,
    name_drawn_classes,
)
from image_pipeline.components.meaning.meanings import FIRST_FOLDER
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.rows import EmbeddedImage
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.understood import understood
from image_pipeline.components.tables.column_names import name_beside_embedded, usual_columns
from image_pipeline.components.tables.joined_rows import LABEL
from image_pipeline.components.tables.rows_once import TableRows
from image_pipeline.components.tables.text_rows import TEXTS, find_windows_word

_MOST_READ = 2**20  # bytes of a table, to know its encoding


def understand_rows(path: str, options: IngestOptions, rows: TableRows) -> IngestOptions:
    """The options with what a table's rows mean, as far as neither they nor its names say it.

    Args:
      path: of the table, or a pattern of one a split.
      options: that were given.
      rows: the table's.

    Raises:
      UserError: if a label, or the order of boxes' numbers, may be one of several.
    """
    _say_encoding(path, rows)
    first = next((row for _, row in rows if not row.problem), None)
    if first is None:
        return options
    drawn = find_drawn(rows)
    if drawn is not None:
        options = name_drawn_classes(path, options, rows, first, drawn)
    elif embedded := _list_embedded(rows):
        others = [name for name in first.cells if name not in embedded]
        beside = name_beside_embedded(embedded, others, options.columns)
        find = find_split if {"label", "mask"} & beside.keys() else find_labels
        return find(path, options, rows, first)
    options = find_images(path, options, rows, first)
    if usual_columns(list(first.cells), options.columns).get("image") not in first.cells:
        return options  # Its absence is refused by whoever names the columns.
    if options.label_columns:
        options = options.model_copy(update={"columns": {**options.columns, LABEL: LABEL}})
    options = find_run_lengths(path, options, rows, first)
    options = find_box_rows(path, options, rows, first)
    options = find_labels(path, options, rows, first)
    if not options.path_folders or options.label_pattern != FIRST_FOLDER:
        return options
    # The folders in which a table's paths are looked for are no part of what these say.
    folders = "|".join(map(re.escape, options.path_folders))
    return options.model_copy(update={"label_pattern": f"(?:{folders})/{FIRST_FOLDER}"})


def _list_embedded(rows: TableRows) -> list[str]:
    """The columns of embedded images, if any of the first rows has one."""
    cells = (cell for _, row in first_rows(rows) for cell in row.cells.items())
    return list(dict.fromkeys(name for name, cell in cells if isinstance(cell, EmbeddedImage)))


def _say_encoding(path: str, rows: TableRows) -> None:
    """Says which tables of text are no UTF-8; refuses those that may be of several encodings."""
    for table, _ in rows.tables:
        is_text = kind_of(table) in TEXTS and files.is_local(table) and os.path.isfile(table)
        data = files.read_file(table, 0, _MOST_READ) if is_text else b""
        if word := find_windows_word(table, data):
            understood(
                f"{os.path.basename(table)} is no UTF-8, so it is read as Windows writes it in "
                f"western languages (cp1252), as in {word!r}; if that is wrong, save it as UTF-8"
            )
