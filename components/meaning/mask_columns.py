"""Which columns of a table are masks that no file holds: of run lengths, segments or outlines."""

import os

from image_pipeline.components.dataset.record import IGNORED
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.masks import MaskOptions
from image_pipeline.components.meaning.box_columns import BOX_CLASSES
from image_pipeline.components.meaning.column_values import first_rows, look_at, plain_name
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.messages import show
from image_pipeline.components.sources.options import RunLengthOptions
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.understood import understood
from image_pipeline.components.tables.column_names import usual_columns
from image_pipeline.components.tables.drawn_masks import (
    IGNORE,
    NO_SEGMENT,
    ascend,
    drawn_classes,
    is_no_run,
    is_runs,
)
from image_pipeline.components.tables.joined_rows import (
    MASK,
    ONLY_CLASS,
)
from image_pipeline.components.tables.outlines import BACKGROUND
from image_pipeline.components.tables.rows_once import TableRows

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
