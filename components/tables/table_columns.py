"""Which columns a table has, by the names that records give them, and their types."""

import keyword
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import INDEX_SCHEMA, MASK_FIELDS, index_name
from image_pipeline.components.dataset.record import BOX_COLUMNS, LABEL_COLUMNS, ColumnType
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.boxes import BoxOptions
from image_pipeline.components.messages import suggest
from image_pipeline.components.sources.box_cells import may_be_boxes
from image_pipeline.components.sources.column_types import BoxGuess, ImageGuess, TypeGuess
from image_pipeline.components.sources.held import HeldImage, name_of
from image_pipeline.components.sources.options import ROLES, TableOptions
from image_pipeline.components.sources.rows import BOX_COLUMN, NAME, Row
from image_pipeline.components.tables.table_files import list_tables
from image_pipeline.components.tables.table_rows import read_rows

# What people call the columns that ingest uses; the first that a table has is taken.
_USUAL_NAMES = {
    "image": (
        *("image", "path", "image_path", "filepath", "file_path", "file", "filename", "file_name"),
        *("image_file", "image_name", "img", "img_path", "img_name", "uri", "image_uri"),
    ),
    "label": ("label", "class", "class_name", "category", "target", "labels"),
    "group": ("group",),
    "split": ("split", "subset"),
    "mask": ("mask", "mask_path", "mask_file", "mask_name"),
}
# The same of a table that holds images itself, such as a file of arrays; `path` is what each is
# called.
USUAL_OF_HELD = {
    "image": (*_USUAL_NAMES["image"], "images", "x", "data", "imgs"),
    "mask": (*_USUAL_NAMES["mask"], "masks", "segmentation", "segmentation_mask"),
}
_USUAL_BESIDE_HELD = {
    "path": ("path", "filename", "file_name", "filepath", "file", "name", "key", "id"),
    "label": ("cls", *_USUAL_NAMES["label"], "y", "targets"),
}
# What records of the Model Garden's form, and ours, call them.
_KEYS_OF_HELD = {"image": (record.IMAGE,), "mask": (record.MASK,)}
_KEYS = {
    "path": (record.FILENAME, NAME),
    "label": (record.TAGS, record.VALUE, record.LABEL, record.LABEL_ID),
}
# What such records say of the stored image, and of the class once more.
_DESCRIBED = {
    *(column.key for column in record.METADATA_COLUMNS),
    *(record.LABEL_ID, record.MASK_FORMAT),
}
_BOXES = ("boxes", "bboxes", "objects", "annotations", BOX_COLUMN)
# Names that the index and batches have.
_TAKEN = frozenset(
    (
        *INDEX_SCHEMA.names,
        *(f.name for f in MASK_FIELDS),
        *map(index_name, BOX_COLUMNS),
        *ROLES,
        "key",
        "mirrored",
        "row",
        "copy",
        "view",
    )
)

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
    found = _rows(path, options.columns) if rows is None else rows
    guesses, misfits = _guess_types(path, found, options.columns)
    given = _name_boxes(guesses, _name_tags(guesses, options.columns))
    held = [column for column, guess in guesses.items() if isinstance(guess, ImageGuess)]
    label = guesses.get(record.LABEL)
    unsaid = {record.LABEL} if label and label.is_empty else set()  # as records have no class
    columns = _name_columns(path, [c for c in guesses if c not in unsaid], held, given)
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
            f"{', '.join(types) or 'none'}."
        )
    _check_fit(misfits, columns, options)
    _check_label(types, columns)
    return options.model_copy(update={"columns": columns, "column_types": types})


def _guess_types(
    path: str, rows: Iterable[tuple[str, Row]], given: Mapping[str, str | None]
) -> tuple[dict[str, TypeGuess | None], dict[str, str]]:
    """Reads all rows.

    Returns:
      Each column's type, None if it is left out; and of columns with values of no one type, where
      the first such value is, and why.
    """
    left_out = {name for name, column in given.items() if column is None}
    guesses: dict[str, TypeGuess | None] = {}
    misfits: dict[str, str] = {}
    problems: list[str] = []
    for place, row in rows:
        if row.problem and not problems:
            problems.append(f"{place}: {row.problem}")
        for column, cell in row.cells.items():
            if column not in guesses:
                is_kept = not left_out.intersection([column, usable_name(column)])
                guesses[column] = _start_guess(column, cell, given) if is_kept else None
            if (guess := guesses[column]) and (why := _see(guess, cell)):
                misfits.setdefault(column, f"{place}: the column {column!r} cannot be kept ({why})")
    if not guesses:
        why = (*problems, "it is empty")[0]
        raise UserError(f"The table {path!r} has no row that can be read ({why}).")
    return guesses, misfits


def _rows(path: str, given: Mapping[str, str | None]) -> Iterator[tuple[str, Row]]:
    """The rows of all tables of a pattern, with their places."""
    for table, _ in list_tables(path):
        for row in read_rows(table, given):
            yield f"{table}:{row.line}", row


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
            can_be_typed = name == "label" or name not in ROLES
            typed = f", or give its type by ingest.column_types={{{name}: …}}"
            raise UserError(
                f"{misfits[column]}; leave it out by ingest.columns={{{_short_name(column)}: null}}"
                f"{typed if can_be_typed else ''}."
            )


def _name_tags(
    guesses: Mapping[str, TypeGuess | None], given: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The columns that are given, with tags as the label where no other column is it."""
    has_label = any(column.lower() in _USUAL_NAMES["label"] for column in guesses)
    if given.get("label") is not None or (has_label and "label" not in given):
        return dict(given)
    lists = (c for c, guess in guesses.items() if c.lower() == "tags" and guess and guess.is_list)
    tags = given.get("tags") or (next(lists, None) if "tags" not in given else None)
    rest = {name: column for name, column in given.items() if name != "tags" or column is None}
    return rest if tags is None else rest | {"label": tags}


def _start_guess(column: str, cell: object, given: Mapping[str, str | None]) -> TypeGuess:
    """Of images, or of boxes: if that is said, or the name and first cell are of boxes."""
    if isinstance(cell, HeldImage):
        return ImageGuess()
    if "boxes" in given:
        return BoxGuess() if column == given["boxes"] else TypeGuess()
    return BoxGuess() if column.lower() in _BOXES and may_be_boxes(cell) else TypeGuess()


def _name_boxes(
    guesses: Mapping[str, TypeGuess | None], given: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The columns that are given, with the boxes; the usual name that comes first, of several."""
    found = {c.lower(): c for c, guess in guesses.items() if isinstance(guess, BoxGuess)}
    usual = next((found[name] for name in _BOXES if name in found), None)
    return {**({} if usual is None else {"boxes": usual}), **given}


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
    """The type of labels that are no names of classes, or that is given."""
    given = options.column_types.get("label")
    guess = guesses.get(columns.get("label") or "")
    if guess is None or given is not None:
        return {} if given is None else {"label": given}
    is_tags = options.tag_separator is not None or columns["label"] == options.columns.get("tags")
    is_value = columns["label"] == record.VALUE
    type_ = "strings" if is_tags else "float" if is_value else guess.label_type
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


def _name_columns(
    path: str, found: Sequence[str], held: Sequence[str], given: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The column of each name: those given, those of usual names, and all that is left over.

    Columns that hold images are an image, a mask, or left out.
    """
    columns = {name: column for name, column in given.items() if column is not None}
    for name, column in columns.items():
        if column not in found:
            raise UserError(
                f"ingest.columns names {column!r} as {name}, but {path!r} has no such column; "
                f"{suggest(column, found)}known: {', '.join(found)}."
            )
        if name in _TAKEN.difference(ROLES):
            raise UserError(f"ingest.columns may not use the name {name!r}; choose another.")
    others = [column for column in found if column not in held]
    if held and columns.get("image", held[0]) in held:
        columns = _name_beside_held(columns, held, others, given)
        given = {"path": None, **given} if "path" not in columns else given
        others = [c for c in others if c not in _DESCRIBED or c in columns.values()]
    elif "path" in columns:
        raise UserError(
            f"ingest.columns.path says what images are called that a table holds itself, but those "
            f"of {path!r} have paths; name the column as image, or give it another name."
        )
    columns = _add_usual(columns, others, _USUAL_NAMES, given)
    found = [column for column in found if column in others or column in columns.values()]
    if "image" not in columns:
        raise UserError(
            f"No column of {path!r} is called as paths are; name it by ingest.columns="
            f"{{image: …}}. Columns: {', '.join(found)}."
        )
    return _add_further(columns, found, given)


def _name_beside_held(
    columns: dict[str, str],
    held: Sequence[str],
    others: Sequence[str],
    given: Mapping[str, str | None],
) -> dict[str, str]:
    """The columns of a table that holds images: which of these are one, and what is said of it."""
    columns = _add_usual(columns, held, _KEYS_OF_HELD, given, str)
    columns = _add_usual(columns, held, USUAL_OF_HELD, given, name_of)
    columns = _add_usual({"image": held[0], **columns}, others, _KEYS, given, str)
    return _add_usual(columns, others, _USUAL_BESIDE_HELD, given, name_of)


def _add_usual(
    columns: dict[str, str],
    found: Sequence[str],
    usual_names: Mapping[str, Sequence[str]],
    given: Mapping[str, str | None],
    call: Callable[[str], str] = str.lower,
) -> dict[str, str]:
    """The columns with those that are called as a role's usually are; given ones stay."""
    columns = dict(columns)
    for role, usual in usual_names.items():
        left = [column for column in found if column not in columns.values()]
        by_name = {call(column): column for column in reversed(left)}
        if role not in given and (called := next((n for n in usual if n in by_name), None)):
            columns.setdefault(role, by_name[called])
    return columns


def _add_further(
    columns: dict[str, str], found: Sequence[str], given: Mapping[str, str | None]
) -> dict[str, str | None]:
    named = {role: columns.get(role) for role in ROLES if role in columns or role in given}
    further: dict[str, str | None] = {n: c for n, c in columns.items() if n not in ROLES}
    for column in found:
        if column in columns.values():
            continue
        name = usable_name(column)
        if name in further or name in named:
            raise UserError(
                f"Two columns would be called {name!r}, {further.get(name) or named.get(name)!r} "
                f"and {column!r}; name one by ingest.columns, as in {{other_{name}: {column!r}}}."
            )
        if left_out := {column, name}.intersection(given):
            further |= dict.fromkeys(left_out.difference(ROLES))
        else:
            further[name] = column
    return named | dict(sorted(further.items()))


def usable_name(column: str) -> str:
    """A column's own name, as far as it can be one in a condition and beside a record's own."""
    name = _short_name(column)
    is_free = name not in _TAKEN and name.isidentifier() and not keyword.iskeyword(name)
    return name if is_free else f"table_{name}"


def _short_name(column: str) -> str:
    """Letters, digits and underscores, as Python normalises names."""
    return re.sub(r"\W+", "_", unicodedata.normalize("NFKC", column)).strip("_")
