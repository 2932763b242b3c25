"""Which column of a table is what (image, label, mask, boxes), and what the rest is called."""

import keyword
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import INDEX_SCHEMA, MASK_FIELDS, index_name
from image_pipeline.components.dataset.record import BOX_COLUMNS
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest
from image_pipeline.components.sources.column_types import BoxGuess, TypeGuess
from image_pipeline.components.sources.file_names import name_of
from image_pipeline.components.sources.options import ROLES
from image_pipeline.components.sources.rows import BOX_COLUMN, NAME

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
# The same for a table with embedded images, such as a file of arrays; `path` is what each is
# called.
USUAL_EMBEDDED = {
    "image": (*_USUAL_NAMES["image"], "images", "x", "data", "imgs"),
    "mask": (*_USUAL_NAMES["mask"], "masks", "segmentation", "segmentation_mask"),
}
_USUAL_BESIDE_EMBEDDED = {
    "path": ("path", "filename", "file_name", "filepath", "file", "name", "key", "id"),
    "label": ("cls", *_USUAL_NAMES["label"], "y", "targets", "image_class", "image_label"),
}
# What records of the Model Garden's form, and ours, call them.
_KEYS_EMBEDDED = {"image": (record.IMAGE,), "mask": (record.MASK,)}
_KEYS = {
    "path": (record.FILENAME, NAME),
    "label": (record.TAGS, record.VALUE, record.LABEL, record.LABEL_ID),
}
# What such records say of the stored image, and of the class once more.
_DESCRIBED = {
    *(column.key for column in record.METADATA_COLUMNS),
    *(record.LABEL_ID, record.MASK_FORMAT),
}
BOXES = ("boxes", "bboxes", "objects", "annotations", BOX_COLUMN)
_MOST_SHOWN = 20  # columns, in messages: a table of pixels has hundreds
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


def name_tags(
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


def name_boxes(
    guesses: Mapping[str, TypeGuess | None], given: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The columns that are given, with the boxes; the usual name that comes first, of several."""
    found = {c.lower(): c for c, guess in guesses.items() if isinstance(guess, BoxGuess)}
    usual = next((found[name] for name in BOXES if name in found), None)
    return {**({} if usual is None else {"boxes": usual}), **given}


def name_columns(
    path: str,
    found: Sequence[str],
    embedded: Sequence[str],
    given: Mapping[str, str | None],
    misfit: str = "",
) -> dict[str, str | None]:
    """The column of each name: those given, those of usual names, and all that is left over.

    Columns of embedded images are an image, a mask, or left out.

    Args:
      path: of the table.
      found: its columns.
      embedded: those of embedded images.
      given: those that the options name.
      misfit: why a column cannot be kept, which may have been meant as the image; "" if all can.

    Raises:
      UserError: if one that is named is not there, two have one name, or none is the image.
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
    others = [column for column in found if column not in embedded]
    if embedded and columns.get("image", embedded[0]) in embedded:
        columns = name_beside_embedded(embedded, others, given)
        given = {"path": None, **given} if "path" not in columns else given
        others = [c for c in others if c not in _DESCRIBED or c in columns.values()]
    elif "path" in columns:
        raise UserError(
            f"ingest.columns.path names images that are embedded in a table, but those of {path!r} "
            "have paths; name the column as image, or give it another name."
        )
    columns = _add_usual(columns, others, _USUAL_NAMES, given)
    kept = {*others, *columns.values()}
    found = [column for column in found if column in kept]
    if "image" not in columns:
        shown = ", ".join(found[:_MOST_SHOWN])
        shown += f" and {len(found) - _MOST_SHOWN:,} more" * (len(found) > _MOST_SHOWN)
        raise UserError(
            f"No column of {path!r} looks like an image path. Name it: ingest.columns="
            f"{{image: COLUMN}}. Columns: {shown}.{misfit and f' {misfit}.'}"
        )
    return _add_further(columns, found, given)


def name_beside_embedded(
    embedded: Sequence[str],
    others: Sequence[str],
    given: Mapping[str, str | None],
) -> dict[str, str]:
    """The columns of a table with embedded images: the images, and their annotations."""
    columns = {name: column for name, column in given.items() if column is not None}
    columns = _add_usual(columns, embedded, _KEYS_EMBEDDED, given, str)
    columns = _add_usual(columns, embedded, USUAL_EMBEDDED, given, name_of)
    columns = _add_usual({"image": embedded[0], **columns}, others, _KEYS, given, str)
    return _add_usual(columns, others, _USUAL_BESIDE_EMBEDDED, given, name_of)


def usual_columns(found: Sequence[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """The columns that are given, or have a role's usual name."""
    columns = {name: column for name, column in given.items() if column is not None}
    return _add_usual(columns, found, _USUAL_NAMES, given)


def _add_usual(
    columns: dict[str, str],
    found: Sequence[str],
    usual_names: Mapping[str, Sequence[str]],
    given: Mapping[str, str | None],
    call: Callable[[str], str] = str.lower,
) -> dict[str, str]:
    """The columns with those that have a role's usual name; given ones stay."""
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
    taken = set(columns.values())
    for column in found:
        if column in taken:
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
    name = short_name(column)
    is_free = name not in _TAKEN and name.isidentifier() and not keyword.iskeyword(name)
    return name if is_free else f"table_{name}"


def short_name(column: str) -> str:
    """Letters, digits and underscores, as Python normalises names."""
    return re.sub(r"\W+", "_", unicodedata.normalize("NFKC", column)).strip("_")
