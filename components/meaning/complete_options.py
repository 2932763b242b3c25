"""What a source says itself, beside the options that were given: its columns, types and splits."""

from image_pipeline.components import files
from image_pipeline.components.dataset.other_records import explain_other_records
from image_pipeline.components.errors import UserError
from image_pipeline.components.generators.generator import GENERATOR, open_generator
from image_pipeline.components.meaning.box_columns import understand_cells
from image_pipeline.components.meaning.meanings import choose_eval
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.pixel_lists import check_pixels
from image_pipeline.components.meaning.rules import COLUMNS, SOURCE
from image_pipeline.components.meaning.table_meaning import understand_rows
from image_pipeline.components.rules import check
from image_pipeline.components.sources.file_names import SPLIT, SPLIT_NAMES, Files, ending_of
from image_pipeline.components.sources.folder import FOLDER
from image_pipeline.components.sources.options import GeneratorOptions
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.rows import EmbeddedImage
from image_pipeline.components.sources.source_kinds import kind_of, list_tables
from image_pipeline.components.sources.span_pattern import check_one_source
from image_pipeline.components.sources.understood import collect
from image_pipeline.components.tables import table_columns
from image_pipeline.components.tables.rows_once import TableRows


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
                "ingest.columns={split: null} to share out all images anew."
            )


def _list_splits(images: str, options: IngestOptions, tables: Files | None = None) -> list[str]:
    """The splits that the names of tables name, unless a pattern or a column says more."""
    if not kind_of(images).is_table or SPLIT in images or "split" in options.columns:
        return []
    tables = list_tables(images) if tables is None else tables
    return sorted({split for _, split in tables if split is not None})
