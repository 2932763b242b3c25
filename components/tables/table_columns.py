"""What types a table's columns have; with their names, all that its options leave out."""

import collections
from collections.abc import Iterable, Mapping
from typing import TypeVar

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.record import LABEL_COLUMNS, ColumnType
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.box_cells import may_be_boxes
from image_pipeline.components.labels.boxes import BoxOptions
from image_pipeline.components.sources.column_types import (
    BoxGuess,
    ImageGuess,
    TypeGuess,
    is_empty,
)
from image_pipeline.components.sources.options import ROLES, TableOptions
from image_pipeline.components.sources.rows import (
    BOX_COLUMN,
    MOST_COLUMNS,
    EmbeddedImage,
    Row,
    Unusable,
)
from image_pipeline.components.tables.column_names import (
    BOXES,
    name_boxes,
    name_columns,
    name_tags,
    short_name,
    usable_name,
)
from image_pipeline.components.tables.rows_once import TableRows

T = TypeVar("T", bound=TableOptions)


def complete_options(path: str, options: T, rows: Iterable[tuple[str, Row]] | None = None) -> T:
    """Finds what the options leave out: which columns there are, and their types.

    Args:
      path: of the table, or a pattern of one a split.
      options: those that were given; what they say stays.
      rows: those that are looked at, with their places; None for all of the table's.

    Returns:
      The options with a table's column for each name, and the type of each further column.

    Raises:
      UserError: if a column that is named is not there, or none is the image's path.
    """
    found = TableRows(path, options).with_paths() if rows is None else rows
    guesses, misfits = _guess_types(path, found, options.columns)
    embedded = _find_embedded(path, guesses, misfits)
    kept = {c: guess for c, guess in guesses.items() if not _says_nothing(c, guess, options)}
    given = name_boxes(kept, name_tags(kept, options.columns))
    columns = name_columns(path, list(kept), embedded, given, next(iter(misfits.values()), ""))
    types = _label_type(columns, guesses, options)
    types |= {
        name: options.column_types.get(name) or guess.type
        for name, column in columns.items()
        if name not in ROLES and column is not None and (guess := guesses[column])
    }
    boxes = guesses.get(columns.get("boxes") or "")
    if isinstance(boxes, BoxGuess):
        types["boxes"] = "boxes"
        options = options.model_copy(update={"boxes": _complete_boxes(options.boxes, boxes)})
    if unknown := options.column_types.keys() - types.keys():
        raise UserError(
            f"ingest.column_types names {min(unknown)!r}, but the further columns of {path!r} are "
            f"{', '.join(types) or 'none'}; leave it out, or name its column by ingest.columns."
        )
    _check_fit(misfits, columns, options)
    _check_paths(path, guesses, columns)
    _check_label(types, columns)
    return options.model_copy(update={"columns": columns, "column_types": types})


def _find_embedded(
    path: str, guesses: dict[str, TypeGuess | None], misfits: dict[str, str]
) -> list[str]:
    """The columns that embed one image a row; those of several are left out, or misfits if all are.

    Args:
      path: of the table.
      guesses: by their columns; without those of several images afterwards.
      misfits: why columns cannot be kept; with those of several images afterwards.
    """
    of_images = {c: guess for c, guess in guesses.items() if isinstance(guess, ImageGuess)}
    embedded = [column for column, guess in of_images.items() if guess.is_whole]
    for column, guess in of_images.items():
        if embedded and not guess.is_whole:
            del guesses[column]
        elif not guess.is_whole:
            guesses[column] = TypeGuess()
            misfits[column] = f"{path}: the column {column!r} cannot be kept ({guess.why})"
    return embedded


def _says_nothing(column: str, guess: TypeGuess | None, options: TableOptions) -> bool:
    """Whether it is as records have it that have no class, or no box at all."""
    if guess is None or not guess.is_empty or column in options.columns.values():
        return False
    return column == record.LABEL or (column == BOX_COLUMN and isinstance(guess, BoxGuess))


def _guess_types(
    path: str, rows: Iterable[tuple[str, Row]], given: Mapping[str, str | None]
) -> tuple[dict[str, TypeGuess | None], dict[str, str]]:
    """Reads all rows.

    Returns:
      Each column's type, None if it is left out; and of columns of which half of the values are of
      no one type, where the first such value is, and why.
    """
    left_out = {name for name, column in given.items() if column is None}
    guesses: dict[str, TypeGuess | None] = {}
    misfits: dict[str, str] = {}
    counts: collections.Counter[str] = collections.Counter()  # of cells that do not fit
    missing: set[str] = set()
    problems: list[str] = []
    read = 0
    for row_name, row in rows:
        if row.problem:
            problems = problems or [f"{row_name}: {row.problem}"]
            continue
        read += 1
        if len(row.cells) < len(guesses) and not _lacks_image(row, guesses):
            missing.update(guesses.keys() - row.cells.keys())
        for column, cell in row.cells.items():
            if column not in guesses:
                missing.update([column] * (read > 1))
                is_kept = not left_out.intersection([column, usable_name(column)])
                guesses[column] = _start_guess(column, cell, given) if is_kept else None
            if (guess := guesses[column]) and (why := _see(guess, cell)):
                misfits.setdefault(
                    column, f"{row_name}: the column {column!r} cannot be kept ({why})"
                )
                counts[column] += 1
        if len(guesses) > MOST_COLUMNS:
            raise UserError(
                f"{row_name}: the table has more than {MOST_COLUMNS:,} columns, the most that are "
                "kept; leave out those that are not used, or write them as one column of lists."
            )
    for column in missing:
        if guess := guesses[column]:
            guess.see(None)
    if not guesses:
        why = (*problems, "it is empty")[0]
        raise UserError(f"The table {path!r} has no row that can be read ({why}).")
    # Fewer than half are the rows' problem: then it is plain what the column is.
    return guesses, {column: misfits[column] for column in misfits if 2 * counts[column] >= read}


def _lacks_image(row: Row, guesses: Mapping[str, TypeGuess | None]) -> bool:
    """Whether a row has no image where others hold one: then it is not used, whatever it lacks."""
    images = (column for column, guess in guesses.items() if isinstance(guess, ImageGuess))
    return any(is_empty(row.cells.get(column)) for column in images)


def _see(guess: TypeGuess, cell: object) -> str:
    """Why a cell fits no type that the cells before it have; empty if it does."""
    try:
        guess.see(cell)
    except ValueError as error:
        return str(error)
    return ""


def _check_fit(
    misfits: Mapping[str, str], columns: Mapping[str, str | None], options: TableOptions
) -> None:
    """Refuses columns of several types; where one is given, rows of another are quarantined."""
    for name, column in columns.items():
        if column is not None and column in misfits and name not in options.column_types:
            if name == "image":
                raise UserError(
                    f"{misfits[column]}; name the column of images or of their paths by "
                    "ingest.columns={image: …}."
                )
            can_be_typed = name == "label" or name not in ROLES
            typed = f", or give its type by ingest.column_types={{{name}: …}}"
            raise UserError(
                f"{misfits[column]}; leave it out by ingest.columns={{{short_name(column)}: null}}"
                f"{typed if can_be_typed else ''}."
            )


def _check_paths(
    path: str, guesses: Mapping[str, TypeGuess | None], columns: Mapping[str, str | None]
) -> None:
    """Refuses lists where each row must have one image."""
    for name in ("image", "mask"):
        column = columns.get(name)
        if column is not None and (guess := guesses[column]) and guess.is_list:
            raise UserError(
                f"The column {column!r} of {path!r} has lists, but must have a path a row, or the "
                "bytes of an image; write pixels as .npy or PNG files, or name another column by "
                f"ingest.columns={{{name}: …}}."
            )


def _start_guess(column: str, cell: object, given: Mapping[str, str | None]) -> TypeGuess:
    """Of images, or of boxes: if that is stated, or the name and first cell are of boxes."""
    if isinstance(cell, EmbeddedImage) or (isinstance(cell, Unusable) and cell.is_images):
        return ImageGuess()
    if "boxes" in given:
        return BoxGuess() if column == given["boxes"] else TypeGuess()
    return BoxGuess() if column.lower() in BOXES and may_be_boxes(cell) else TypeGuess()


def _complete_boxes(options: BoxOptions | None, found: BoxGuess) -> BoxOptions:
    """The options with the classes that a table names, unless they say which there may be."""
    options = options or BoxOptions()
    if not (options.classes or found.classes):
        raise UserError(
            "No row of the table has a box that can be read, so there are no classes; leave the "
            "column out by ingest.columns={boxes: null}, or name ingest.boxes.classes."
        )
    update: dict[str, object] = {"classes": options.classes or found.classes}
    if found.format is not None and "format" not in options.model_fields_set:
        update["format"] = found.format
    return options.model_copy(update=update)


def _label_type(
    columns: Mapping[str, str | None],
    guesses: Mapping[str, TypeGuess | None],
    options: TableOptions,
) -> dict[str, ColumnType]:
    """The type of labels that are not names of classes, or that is given."""
    given = options.column_types.get("label")
    guess = guesses.get(columns.get("label") or "")
    if guess is None or given is not None:
        return {} if given is None else {"label": given}
    is_tags = options.tag_separator is not None or columns["label"] == options.columns.get("tags")
    is_value = columns["label"] == record.VALUE
    type_ = "strings" if is_tags else "float" if is_value else guess.label_type
    if type_ == "strings" and guess.type == "floats":
        raise UserError(
            f"The label {columns['label']!r} has lists of numbers, which name no tags, as "
            "one-hot rows do not; write the name or the number of the class instead, or a list of "
            "the tags' names. Or by ingest.columns: {label: …} names another label, and "
            "{label: null} takes none."
        )
    return {} if type_ == "string" else {"label": type_}


def _check_label(types: Mapping[str, ColumnType], columns: Mapping[str, str | None]) -> None:
    """Checks that labels can be of their type, and that no other column has their name."""
    type_ = types.get("label", "string")
    if type_ != "string" and type_ not in LABEL_COLUMNS:
        raise UserError(
            f"ingest.column_types.label must be string (a class), strings (tags) or float (a "
            f"value), got {type_}; name one of those."
        )
    name = "" if type_ == "string" else index_name(LABEL_COLUMNS[type_])
    if name in types:
        raise UserError(
            f"The label {columns['label']!r} is kept as {name!r}, and so is the column "
            f"{columns[name]!r}; name it by ingest.columns, as in {{other_{name}: {name}}}."
        )
