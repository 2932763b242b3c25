"""Which columns of a table are boxes, if each row is one, or masks that no file holds."""

import csv
import itertools
import os
from collections.abc import Collection, Mapping
from typing import Any

from image_pipeline.components.dataset.record import IGNORED
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.boxes import BoxOptions
from image_pipeline.components.labels.masks import MaskOptions
from image_pipeline.components.meaning.column_values import first_rows, look_at, plain_name
from image_pipeline.components.meaning.image_columns import MOST_FOLDERS
from image_pipeline.components.meaning.label_columns import MAY_BE_SPLITS, is_other
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.messages import show
from image_pipeline.components.sources.options import BoxRowOptions, RunLengthOptions
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.understood import understood
from image_pipeline.components.tables.box_order import read_cells_order, read_order
from image_pipeline.components.tables.column_names import BOXES, usual_columns
from image_pipeline.components.tables.drawn_masks import (
    IGNORE,
    NO_SEGMENT,
    ascend,
    drawn_classes,
    is_no_run,
    is_runs,
)
from image_pipeline.components.tables.joined_rows import (
    JOINED_BOXES,
    LABEL,
    MASK,
    ONLY_CLASS,
)
from image_pipeline.components.tables.outlines import BACKGROUND
from image_pipeline.components.tables.rows_once import TableRows

_FIRST_CORNERS = (("xmin", "ymin"), ("left", "top"), ("x1", "y1"), ("x", "y"))
_SIDES = (("width", "height"), ("w", "h"))
_CORNERS: tuple[tuple[tuple[str, ...], str | None], ...] = (
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"),
    (("x1", "y1", "x2", "y2"), "xyxy"),
    (("x0", "y0", "x1", "y1"), "xyxy"),
    (("box1", "box2", "box3", "box4"), "xyxy"),  # of a table without names, as keras-retinanet has
    (("left", "top", "right", "bottom"), "xyxy"),
    (("xtl", "ytl", "xbr", "ybr"), "xyxy"),
    (("xcenter", "ycenter", "width", "height"), "center_xywh"),
    (("centerx", "centery", "width", "height"), "center_xywh"),
    (("cx", "cy", "w", "h"), "center_xywh"),
    *(((*corner, *sides), "xywh") for corner in _FIRST_CORNERS for sides in _SIDES),
)
_PREFIXES = ("", "bbox", "box", "bndbox", "roi")
_ONE_COLUMN = ("bbox", "box", "bndbox", "boundingbox")
_SIZES = (("width", "height"), ("imagewidth", "imageheight"), ("imgwidth", "imgheight"))
_CROWDS = ("isgroupof", "iscrowd", "crowd")
BOX_CLASSES = (
    *("class", "label", "labelname", "classname", "category", "categoryname", "name", "object"),
    *("objectname", "species", "type", "classid", "categoryid", "labelid", "classes", "labels"),
)


def find_box_rows(path: str, options: IngestOptions, rows: TableRows, first: Row) -> IngestOptions:
    """The columns of boxes, if each row is one, and what their four numbers are."""
    if options.box_rows is not None or "boxes" in options.columns:
        return options
    if any(name.lower() in BOXES for name in first.cells):
        return options
    by_name = {plain_name(name): name for name in reversed(list(first.cells))}
    numbers, order = _name_corners(by_name)
    if numbers is None:
        one = next((by_name[name] for name in _ONE_COLUMN if name in by_name), None)
        if one is None or not _is_list_of_four(first.cells[one]):
            return options
        numbers = (one,)
    free = {plain: name for plain, name in by_name.items() if name not in numbers}
    size = next((tuple(free[s] for s in pair) for pair in _SIZES if free.keys() >= set(pair)), None)
    given = options.columns.get(LABEL)
    image = (
        options.columns.get("image") or usual_columns(list(first.cells), options.columns)["image"]
    )
    class_ = given or next((free[name] for name in BOX_CLASSES if name in free), None)
    if class_ is None and LABEL not in options.columns:
        left = {n for plain, n in free.items() if plain not in MAY_BE_SPLITS} - {image}
        class_ = _find_class(path, rows, left.difference(options.columns.values()))
    asked = BoxRowOptions(
        numbers=numbers,
        name=class_,
        size=size,  # type: ignore[arg-type]
        crowd=next((free[name] for name in _CROWDS if name in free), None),
    )
    table = os.path.basename(path)
    if asked.name is not None and (names := _find_names(path, rows, asked.name)):
        asked = asked.model_copy(update={"names": names[1]})
        understood(f"{table}: {names[0]} says what the classes are called")
    boxes = {} if options.boxes is None else options.boxes.model_dump(exclude_unset=True)
    if "format" not in boxes:
        judged = read_order(path, options, rows, image, asked, order)
        boxes["format"] = judged.format
        understood(f"{table}: each row is a box, {judged.words}")
    named = (
        f"classes are in {asked.name!r}"
        if asked.name
        else "all are of one class, 'object', unless ingest.columns={label: …} names their column"
    )
    understood(f"{table}: the rows of an image are joined; {named}")
    columns = {name: column for name, column in options.columns.items() if name != LABEL}
    columns |= {"boxes": JOINED_BOXES, "image": image}
    update = {"box_rows": asked, "columns": columns, "boxes": BoxOptions.model_validate(boxes)}
    return options.model_copy(update=update)


def _find_class(path: str, rows: TableRows, names: Collection[str]) -> str | None:
    """The one column left that has few texts; None if none has; UserError if several have."""
    columns = look_at(rows, sorted(names))
    found = [name for name, each in columns.items() if each.are_words and not is_other(name)]
    if len(found) > 1:
        ways = "; ".join(f"for {name!r}, ingest.columns={{label: {name!r}}}" for name in found)
        raise UserError(
            f"Each row of {path!r} is a box, no column has a usual name for classes, and several "
            f"may be: {ways}; for boxes of one class, ingest.columns={{label: null}}."
        )
    return found[0] if found else None


def understand_cells(
    path: str, given: IngestOptions, options: IngestOptions, rows: TableRows
) -> IngestOptions:
    """The options with the order of boxes' numbers, if it is not stated, and not the usual one."""
    is_stated = given.boxes is not None and "format" in given.boxes.model_fields_set
    has_none = options.columns.get("boxes") is None  # Which is refused by whoever completes them.
    if options.boxes is None or has_none or is_stated or options.boxes.format != "xywh":
        return options
    judged = read_cells_order(path, options, rows)
    if judged is None:
        return options
    understood(f"{os.path.basename(path)}: {judged.words}")
    boxes = options.boxes.model_copy(update={"format": judged.format})
    return options.model_copy(update={"boxes": boxes})


def _find_names(path: str, rows: TableRows, column: str) -> tuple[str, dict[str, str]] | None:
    """A table of two columns beside this one that names the codes of all classes; and its names."""
    folder = kind_of(path).folder(path)
    codes = {str(row.cells.get(column) or "").strip() for _, row in rows if not row.problem} - {""}
    try:
        beside = sorted(each for each in os.listdir(folder) if each.lower().endswith(".csv"))
    except OSError:
        return None
    for name in beside[:MOST_FOLDERS]:
        try:
            with open(os.path.join(folder, name), encoding="utf-8-sig", newline="") as file:
                pairs = [
                    row[:2] for row in itertools.islice(csv.reader(file), 10**5) if len(row) == 2
                ]
        except (OSError, UnicodeError, csv.Error):
            continue
        names = {code.strip(): called.strip() for code, called in pairs}
        are_names = not any(called.isdigit() for called in names.values())
        if codes and codes <= names.keys() and are_names:
            return name, {code: names[code] for code in sorted(codes)}
    return None


def _name_corners(by_name: Mapping[str, str]) -> tuple[tuple[str, ...] | None, str | None]:
    for prefix in _PREFIXES:
        for names, order in _CORNERS:
            if all(f"{prefix}{name}" in by_name for name in names):
                return tuple(by_name[f"{prefix}{name}"] for name in names), order
    return None, None


def _is_list_of_four(cell: Any) -> bool:
    if isinstance(cell, str):
        cell = cell.strip().strip("[]()").replace(",", " ").split()
    return isinstance(cell, list | tuple) and len(cell) == 4 and all(map(_is_number, cell))


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


_RUN_NAMES = ("encodedpixels", "rle", "runlengths", "runlength", "rlemask", "maskrle")


def find_run_lengths(
    path: str, options: IngestOptions, rows: TableRows, first: Row
) -> IngestOptions:
    """The columns of masks by run lengths, and their classes."""
    given, taken = options.run_lengths, options.columns.get("mask", MASK)
    if taken != MASK or (given is None and "mask" in options.columns):
        return options
    by_name = {plain_name(name): name for name in reversed(list(first.cells))}
    named = next((by_name[name] for name in _RUN_NAMES if name in by_name), None)
    pixels = named if given is None else given.pixels
    if pixels is None:
        return options
    name = next((by_name[each] for each in ("classid", *BOX_CLASSES) if each in by_name), None)
    name = name if given is None else given.name
    known = list(dict.fromkeys(each for _, row in first_rows(rows) for each in row.cells))
    for column in (pixels, name):
        if column is not None and column not in known:
            raise UserError(
                f"ingest.run_lengths names {column!r}, but {path!r} has no such column; known: "
                f"{', '.join(known)}."
            )
    cells = [row.cells.get(pixels) for _, row in first_rows(rows)]
    if given is None and 2 * sum(map(is_runs, cells)) <= len(cells):
        return options  # Fewer that are none are those rows' problem.
    of_runs = (str(cell) for cell in cells if is_runs(cell) and not is_no_run(cell))
    if wrong := next((text for text in of_runs if not ascend(text)), None):
        raise UserError(
            f"{os.path.basename(path)}: {pixels!r} has run lengths, but they do not begin one "
            f"after the other, as in {show(wrong)}; if they are gaps, as in SIIM-ACR, write "
            "where each begins, counted from 1; ingest.columns={mask: null} leaves them out."
        )
    classes: tuple[str, ...] = (ONLY_CLASS,)
    if given is not None and given.classes:
        classes = given.classes
    elif name is not None:
        values = {*look_at(rows, [name])[name].values} - {BACKGROUND}
        classes = tuple(sorted(values, key=lambda v: (0, int(v), v) if v.isdigit() else (1, 0, v)))
    image = usual_columns(list(first.cells), options.columns)["image"]
    masks = MaskOptions() if options.masks is None else options.masks
    if masks.classes is None:
        _check_number(path, 1 + len(classes))
        masks = masks.model_copy(update={"classes": (BACKGROUND, *classes)})
    if given is None:
        understood(
            f"{os.path.basename(path)}: {pixels!r} has masks by run lengths, counted from 1 and "
            f"column by column; classes: {BACKGROUND}, {', '.join(classes)}"
        )
    update = {
        "run_lengths": RunLengthOptions(pixels=pixels, name=name, classes=classes),
        "columns": {**options.columns, "image": image, "mask": MASK},
        "masks": masks,
    }
    return options.model_copy(update=update)


def find_drawn(rows: TableRows) -> str | None:
    """The column of masks that are drawn of segments or outlines; not every image has one."""
    cells = (cell for _, row in first_rows(rows) for cell in row.cells.items())
    return next((name for name, cell in cells if drawn_classes(cell) is not None), None)


def name_drawn_classes(
    path: str, options: IngestOptions, rows: TableRows, first: Row, column: str
) -> IngestOptions:
    """The columns of images and of masks of segments or outlines, and the classes of all tables."""
    if options.columns.get("mask", column) != column:
        return options
    image = usual_columns([name for name in first.cells if name != column], options.columns)
    columns = {**options.columns, "image": image["image"], "mask": column}
    options = options.model_copy(update={"columns": columns})
    masks = MaskOptions() if options.masks is None else options.masks
    if masks.classes is not None:
        return options
    classes: dict[str, tuple[int, ...]] = {}
    for row_name, row in rows.with_paths():
        for name, levels in (drawn_classes(row.cells.get(column)) or {}).items():
            others = {level for other in classes if other != name for level in classes[other]}
            if classes.setdefault(name, levels) != levels or others & {*levels}:
                raise UserError(
                    f"{row_name}: the category {name!r} has the id {levels[0]}, but another one in "
                    "another file; give all files the same categories, or ingest each by itself."
                )
    no_class = classes.pop(IGNORE, ())
    _check_number(path, len(classes))
    name, listed = os.path.basename(path.rstrip("/")), ", ".join(classes)
    if any(NO_SEGMENT in levels for levels in classes.values()):
        ignored: tuple[int, ...] = no_class
        are_none = f"; {IGNORE} is none" if no_class else ""
        understood(
            f"{name}: masks of categories, drawn of outlines, of which the smaller is on top; "
            f"classes: {listed}{are_none}"
        )
    else:
        ignored = (NO_SEGMENT, *no_class)
        understood(
            f"{name}: masks of categories, drawn of panoptic segments; classes: {listed}; pixels "
            "of no segment are of none"
        )
    update = {"classes": classes, "ignored": ignored}
    return options.model_copy(update={"masks": masks.model_copy(update=update)})


def _check_number(path: str, classes: int) -> None:
    if classes > IGNORED:
        raise UserError(
            f"{path!r} has masks of {classes:,} classes, but {IGNORED} is the most; give "
            "those that you mean with their ids as ingest.masks.classes, and the ids of others as "
            "ingest.masks.ignored."
        )
