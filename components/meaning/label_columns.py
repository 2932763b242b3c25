"""Which columns of a table are labels, and which name splits."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.column_values import (
    ColumnValues,
    look_at,
    plain_name,
    words_of,
)
from image_pipeline.components.meaning.counted_folders import Tally
from image_pipeline.components.meaning.folder_meaning import find_split_folders
from image_pipeline.components.meaning.layout import take_splits
from image_pipeline.components.meaning.meanings import (
    FIRST_FOLDER,
    SPLIT_FOLDERS,
    Meaning,
    choose_eval,
    say_splits,
    share_splits,
)
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import is_unassigned
from image_pipeline.components.sources.file_names import SPLIT_NAMES, split_named
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.understood import noticed, understood
from image_pipeline.components.tables.column_names import BOXES, usable_name, usual_columns
from image_pipeline.components.tables.joined_rows import (
    LABEL,
    is_yes,
)
from image_pipeline.components.tables.rows_once import TableRows

_MOST_SPLITS = 20
_SPLITS = (
    *("split", "subset", "set", "usage", "partition", "phase", "fold", "foldtype", "datasplit"),
    *("dataset", "datatype", "splits", "setname", "splitname", "purpose"),
)
_SPLIT_VALUES = {
    **SPLIT_NAMES,
    **dict.fromkeys(("validate", "vld", "vali", "publictest"), "eval"),
    **{"trn": "train", "privatetest": "test"},
}
MAY_BE_SPLITS = (
    *("fold", "kfold", "istrain", "istraining", "istest", "isval", "isvalid", "isvalidation"),
    *("istrainingimage", *_SPLITS),
)
_ID_WORDS = {"id", "uid", "uuid", "index", "idx", "user", "patient", "subject", "hash", "md5"}
_LABEL_WORDS = {"label", "labels"}
_MEASURE_WORDS = {
    *("width", "height", "size", "bytes", "channels", "format", "colorspace", "encoding"),
    *("date", "time", "year", "url", "name"),
}


def find_labels(path: str, options: IngestOptions, rows: TableRows, first: Row) -> IngestOptions:
    """The column of splits, or their folders; and that of labels, or those of one class each."""
    options = find_split(path, options, rows, first)
    usual = usual_columns(list(first.cells), options.columns)
    if "image" in usual:  # Else rows hold their images.
        options = _find_split_folders(path, options, rows, usual["image"])
    names_label = {"label", "mask"} & {*options.columns, *usual}
    of_boxes = [name for name in first.cells if name.lower() in (*BOXES, "tags")]
    is_joined = options.box_rows is not None or options.label_columns != ()
    is_stated = bool(names_label or of_boxes) or is_joined or options.masks is not None
    if is_stated or options.label_pattern != FIRST_FOLDER:
        return options
    columns, split = look_at(rows, None), options.columns.get("split")
    image = options.columns.get("image") or usual.get("image")
    left_out = {name for name, column in options.columns.items() if column is None}
    taken = {image, split, usual.get("group"), *options.columns.values()}
    others = {
        name: column
        for name, column in columns.items()
        if name not in taken
        and not (_may_be_splits(name, column) or _names_splits(column))
        and not left_out.intersection((name, usable_name(name)))
    }
    return _take_label(path, options, rows, others, columns[image or ""] if image else None)


def find_split(path: str, options: IngestOptions, rows: TableRows, first: Row) -> IngestOptions:
    """The column of splits, if its values are such; or the only one of these, however called."""
    if "split" in options.columns:
        return options
    by_name = {plain_name(name): name for name in reversed(list(first.cells))}
    split = next((by_name[name] for name in MAY_BE_SPLITS if name in by_name), None)
    columns = look_at(rows, None if split is None else [split])
    found = [name for name, column in columns.items() if _names_splits(column)]
    if split is None and len(found) != 1:
        return options
    split = split or found[0]
    return _take_split(path, options, split, columns[split])


def _names_splits(column: ColumnValues) -> bool:
    """Whether all values are splits' words, that of training among them."""
    known = {_SPLIT_VALUES.get(value.lower()) for value in column.values}
    return column.is_plain and "train" in known and None not in known and len(known) > 1


def _take_split(
    path: str, options: IngestOptions, split: str, column: ColumnValues
) -> IngestOptions:
    """The options of a column whose values name splits, or as they are."""
    named = {v: _SPLIT_VALUES.get(v.lower()) for v in column.values if not is_unassigned(v)}
    known = {value: name for value, name in named.items() if name is not None}
    table = os.path.basename(path)
    has_usual_splits = options.splits == IngestOptions().splits
    is_all_train = set(named.values()) == {"train"} and len(column.values) == 1
    if column.values and (not named or (is_all_train and len(options.splits) > 1)):
        only = next(iter(column.values))
        understood(f"{table}: all of {split!r} are {only!r}, so that images are split again")
        return options.model_copy(update={"columns": {**options.columns, "split": None}})
    is_split = plain_name(split) in _SPLITS or _names_splits(column)
    are_all = len(known) == len(named) and "train" in known.values()
    is_meant = len(set(known.values())) > 1 or not has_usual_splits or len(column.values) > 1
    if not (is_split and are_all and is_meant):
        if split not in options.columns.values() and 1 < len(named) <= _MOST_SPLITS:
            values = ", ".join(sorted(named))
            noticed(
                f"{table}: {split!r} ({values}) does not say which rows are for "
                f"training; if it does, ingest.columns={{split: {split!r}}}, and "
                'ingest.split_names, as in \'{"1": train, "0": eval}\''
            )
        return options
    if any(value in options.splits for value in known if known[value] != value):
        return options  # They are splits by their own names.
    update: dict[str, Any] = {"columns": {**options.columns, "split": split}}
    if "test" not in options.splits:
        evaluated = choose_eval(known)
        known = evaluated if "eval" not in known.values() else known
    if has_usual_splits:
        update["splits"] = share_splits(known)
    elif not set(known.values()) <= set(options.splits):
        return options
    renamed = {value: name for value, name in sorted(known.items()) if value != name}
    update["split_names"] = renamed | options.split_names
    if renamed or split.lower() not in ("split", "subset"):
        names = ", ".join(f"{value} ({name})" for value, name in sorted(known.items()))
        understood(f"{table}: {split!r} names the splits: {names}")
    return options.model_copy(update=update)


def _take_label(
    path: str,
    options: IngestOptions,
    rows: TableRows,
    columns: Mapping[str, ColumnValues],
    images: ColumnValues | None,
) -> IngestOptions:
    """The options with the label of a table of which no column has a usual name for labels."""
    table = os.path.basename(path)
    one_each = [name for name, column in columns.items() if column.is_yes_or_no]
    others = [
        name
        for name, column in columns.items()
        if name not in one_each and column.may_be_label and not is_other(name)
    ]
    if len(called := [name for name in others if words_of(name) & _LABEL_WORDS]) == 1:
        others, one_each = called, []  # as `Finding Labels`
    if len(one_each) == 1:  # of which a row is one, or is not
        others += one_each
    folders = _first_folders(images, options.path_prefix or "")
    if len(folders) > 1 and not all(map(split_named, folders)):
        # Then classes are in the paths, as for a folder.
        if others or len(one_each) > 1:
            more = ", ".join(map(repr, (others or one_each)[:5]))
            understood(
                f"{table}: no column has a usual name for labels, so classes are the first folders "
                f"of paths: {', '.join(sorted(folders)[:5])}; ingest.columns={{label: …}} takes a "
                f"column, such as {more}"
            )
        return options
    ways = [*others, *(["the columns of 0 and 1"] if len(one_each) > 1 else [])]
    if len(ways) > 1:
        choices = "; ".join(f"for {name!r}, ingest.columns={{label: {name!r}}}" for name in others)
        if len(one_each) > 1:
            named = ", ".join(one_each[:5]) + ", …" * (len(one_each) > 5)
            choices += f"; for {named} as a class each, ingest.label_columns=[{named}]"
        raise UserError(
            f"No column of {path!r} has a usual name for labels, and several may be: {choices}; "
            "for images without labels, ingest.label_pattern=null."
        )
    if others:
        understood(f"{table}: the label is the column {others[0]!r}, ingest.columns={{label: …}}")
        return options.model_copy(update={"columns": {**options.columns, LABEL: others[0]}})
    if len(one_each) > 1:
        return _take_columns(table, options, rows, one_each)
    values = [n for n, column in columns.items() if column.has_fraction and not is_other(n)]
    if values:
        raise UserError(
            f"No column of {path!r} has a usual name for labels, and none has few values that "
            f"repeat: {', '.join(map(repr, values))}. Name it, as in ingest.columns={{label: "
            f"{values[0]!r}}}; for images without labels, ingest.label_pattern=null."
        )
    return options


def _find_split_folders(
    path: str, options: IngestOptions, rows: TableRows, image: str
) -> IngestOptions:
    """The options of folders in paths that are called train, val, test, where nothing else is."""
    is_stated = options.split_pattern is not None or "split" in options.columns
    is_stated |= options.path_folders != () or any(split for _, split in rows.tables)
    if is_stated or kind_of(path).in_folder is not None:
        return options
    cells = (row.cells.get(image) for _, row in rows if not row.problem)
    named = (options.without_prefix(cell).strip() for cell in cells if isinstance(cell, str))
    pattern, splits = find_split_folders(Tally(each.replace("\\", "/") for each in named).folders())
    if pattern is None:
        return options
    understood(f"{os.path.basename(path)}: {say_splits(splits)} in paths are taken as splits")
    meaning = Meaning(kind=SPLIT_FOLDERS, split_pattern=pattern, splits=splits)
    return options.model_copy(update=take_splits(path, options, meaning))


def _may_be_splits(name: str, column: ColumnValues) -> bool:
    """Whether a column has a usual name of splits, and its values may number these."""
    is_number = column.is_yes_or_no or not column.are_words
    return plain_name(name) in MAY_BE_SPLITS and is_number


def is_other(name: str) -> bool:
    """Whether a column has a usual name of identifiers or measurements."""
    words = words_of(name)
    return bool(words & (_ID_WORDS | _MEASURE_WORDS)) and not words & {"class", "label"}


def _first_folders(images: ColumnValues | None, prefix: str) -> set[str]:
    if images is None:
        return set()
    paths = [value.replace("\\", "/").removeprefix(prefix) for value in images.counts]
    return {path.split("/")[0] for path in paths if "/" in path.strip("/")}


def _take_columns(
    table: str, options: IngestOptions, rows: TableRows, names: Sequence[str]
) -> IngestOptions:
    """The options of a table that has a column a class: one of them a row, or tags."""
    counts = (sum(is_yes(row.cells.get(n)) for n in names) for _, row in rows if not row.problem)
    is_class = all(count == 1 for count in counts)
    update: dict[str, Any] = {
        "label_columns": tuple(names),
        "columns": {**options.columns, LABEL: LABEL},
    }
    if not is_class:
        update["column_types"] = {**options.column_types, LABEL: "strings"}
    shown = ", ".join(names[:5]) + ", …" * (len(names) > 5)
    kind = "class" if is_class else "tag"
    understood(f"{table}: each of {shown} is a {kind} (ingest.label_columns)")
    return options.model_copy(update=update)
