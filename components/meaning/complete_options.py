"""What a source says itself, beside the options that were given: its columns, types and splits."""

import os
import re

from image_pipeline.components import files
from image_pipeline.components.dataset.other_records import explain_other_records
from image_pipeline.components.errors import UserError
from image_pipeline.components.generators.generator import GENERATOR, open_generator
from image_pipeline.components.meaning.box_columns import (
    find_box_rows,
    find_drawn,
    find_run_lengths,
    name_drawn_classes,
    understand_cells,
)
from image_pipeline.components.meaning.column_values import first_rows
from image_pipeline.components.meaning.image_columns import find_images
from image_pipeline.components.meaning.label_columns import find_labels, find_split
from image_pipeline.components.meaning.meanings import FIRST_FOLDER, choose_eval
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.pixel_lists import check_pixels
from image_pipeline.components.meaning.rules import COLUMNS, SOURCE
from image_pipeline.components.rules import check
from image_pipeline.components.sources.file_names import SPLIT, SPLIT_NAMES, Files, ending_of
from image_pipeline.components.sources.folder import FOLDER
from image_pipeline.components.sources.options import GeneratorOptions
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.rows import EmbeddedImage
from image_pipeline.components.sources.source_kinds import kind_of, list_tables
from image_pipeline.components.sources.span_pattern import check_one_source
from image_pipeline.components.sources.understood import collect, understood
from image_pipeline.components.tables import table_columns
from image_pipeline.components.tables.column_names import name_beside_embedded, usual_columns
from image_pipeline.components.tables.joined_rows import LABEL
from image_pipeline.components.tables.rows_once import TableRows
from image_pipeline.components.tables.text_rows import TEXTS, find_windows_word

_MOST_READ = 2**20  # bytes of a table, to know its encoding


def complete_options(
    images: str, options: IngestOptions, rows: TableRows | None = None
) -> IngestOptions:
    """The options with all that a table says of its columns; for a folder, as they are.

    What was completed once stays as it is.

    Args:
      images: the folder, archive or table, or its URI; or a generator.
      options: of ingest.
      rows: the table's; None to read it.

    Raises:
      UserError: if the options do not fit the table, or it cannot be read, or they are a table's
        and there is none; or if it is a pattern of spans.
    """
    with collect() as notes:
        options = _complete(images, options, rows)
    return options.say_understood(notes.understood)


def _complete(images: str, options: IngestOptions, rows: TableRows | None) -> IngestOptions:
    check_one_source(images)
    kind = kind_of(images)
    if kind is FOLDER:
        refuse_other_records(images)
    check(SOURCE, images=images, kind=kind, ingest=options)
    if kind is GENERATOR:
        options = _complete_generator(images, options)
    elif kind.is_table:
        rows = rows or TableRows(images, options)
        check_pixels(images, options, rows)
        given = options = understand_rows(images, options, rows)
        rows = rows.joined(options)
        options = table_columns.complete_options(images, options, rows.with_paths())
        options = _join_box_classes(understand_cells(images, given, options, rows))
        options = _map_splits(images, options, rows.tables)
    check(COLUMNS, images=images, kind=kind, completed=options)
    return options


def refuse_other_records(folder: str) -> None:
    """Refuses a local folder that has splits of records, as ExampleGens write them, and no image.

    Raises:
      UserError: if it is one.
    """
    if not files.is_local(folder) or not (notes := explain_other_records(folder)):
        return
    names = (name for at in ("*", "*/*") for name in files.list_files(folder, at))
    if not any(ending_of(name) in IMAGE_ENDINGS for name in names):
        raise UserError(notes)


def _join_box_classes(options: IngestOptions) -> IngestOptions:
    """The options with the classes of boxes by the names that stand for them."""
    if options.labels is None or options.boxes is None or not options.boxes.classes:
        return options
    names = tuple(dict.fromkeys(map(options.labels.join, options.boxes.classes)))
    boxes = options.boxes.model_copy(update={"classes": names})
    return options.model_copy(update={"boxes": boxes})


def _complete_generator(images: str, options: IngestOptions) -> IngestOptions:
    """The options with what a generator's first items say of its columns."""
    options = options.model_copy(update={"generator": options.generator or GeneratorOptions()})
    sample = list(open_generator(images, options).sample())
    options = table_columns.complete_options(images, options, sample)
    columns = options.columns
    if not any(
        isinstance(row.cells.get(columns["image"] or ""), EmbeddedImage) for _, row in sample
    ):
        raise UserError(
            f"The first items of {images} have no image; their {columns['image']!r} must be an "
            "array of two or more dimensions, or the bytes of an image file."
        )
    return options


def _map_splits(images: str, options: IngestOptions, tables: Files) -> IngestOptions:
    """The options with the pipeline's names for splits that are called otherwise, as `val` is.

    Those are meant that the names of tables name; a test split is for evaluation if no other is.
    """
    own = {}
    for split in _list_splits(images, options, tables):
        usual = split if split in options.splits else SPLIT_NAMES.get(split.lower(), split)
        own[split] = options.split_names.get(split, usual)
    if "eval" in options.splits and "test" not in options.splits:
        own = choose_eval(own)
    named = {split: n for split, n in own.items() if split != n and n in options.splits}
    if not named:
        return options
    return options.model_copy(update={"split_names": named | options.split_names})


def check_splits(images: str, options: IngestOptions) -> None:
    """Checks that there is each split that the names of tables name.

    Raises:
      UserError: if there is not: all of its images would be quarantined.
    """
    for split in _list_splits(images, options):
        if options.split_names.get(split, split) not in options.splits:
            raise UserError(
                f"Files of {images!r} are of the split {split!r}, but ingest.splits has "
                f"{', '.join(options.splits)} only; add it there or to ingest.split_names, or give "
                "ingest.columns={split: null} to split all images again."
            )


def _list_splits(images: str, options: IngestOptions, tables: Files | None = None) -> list[str]:
    """The splits that the names of tables name, unless a pattern or a column says more."""
    if not kind_of(images).is_table or SPLIT in images or "split" in options.columns:
        return []
    tables = list_tables(images) if tables is None else tables
    return sorted({split for _, split in tables if split is not None})


def understand_rows(path: str, options: IngestOptions, rows: TableRows) -> IngestOptions:
    """The options with what a table's rows mean, as far as neither they nor its names say it.

    What is inferred becomes options, so that it is inferred once, and printed; what cannot be known
    is refused with the options for each meaning.

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
    # The columns of embedded images, if any of the first rows has one.
    elif embedded := list(
        dict.fromkeys(
            name
            for _, row in first_rows(rows)
            for name, cell in row.cells.items()
            if isinstance(cell, EmbeddedImage)
        )
    ):
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
    # The folders in which a table's paths are looked for are not part of what these say.
    folders = "|".join(map(re.escape, options.path_folders))
    return options.model_copy(update={"label_pattern": f"(?:{folders})/{FIRST_FOLDER}"})


def _say_encoding(path: str, rows: TableRows) -> None:
    """Says which tables of text are not UTF-8; refuses those that may be of several encodings."""
    for table, _ in rows.tables:
        is_text = kind_of(table) in TEXTS and files.is_local(table) and os.path.isfile(table)
        data = files.read_file(table, 0, _MOST_READ) if is_text else b""
        if word := find_windows_word(table, data):
            understood(
                f"{os.path.basename(table)} is not UTF-8, so it is read as Windows writes it in "
                f"western languages (cp1252), as in {word!r}; if that is wrong, save it as UTF-8"
            )
