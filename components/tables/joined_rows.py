"""Rows of which several are one image, or columns of which several are one label, joined to one.

Options say what is joined; nothing is inferred here.
"""

import array
import collections
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.labels.box_cells import BOXES, SIZE, StatedBoxes
from image_pipeline.components.messages import show
from image_pipeline.components.sources.file_names import split_in_path, split_named
from image_pipeline.components.sources.options import (
    BoxRowOptions,
    RunLengthOptions,
    TableOptions,
)
from image_pipeline.components.sources.rows import EmbeddedImage, Row
from image_pipeline.components.sources.understood import noticed
from image_pipeline.components.tables.drawn_masks import is_no_run, refer_to_runs

LABEL, JOINED_BOXES, MASK = "label", "boxes", "mask"
"""The columns that are made of others."""

ONLY_CLASS = "object"
"""The class of boxes that name none."""

_YES = {1, "1", "1.0", "True", "true", "TRUE"}
Numbered = tuple[int, Row]  # with the number of its table


def needs_joining(options: TableOptions) -> bool:
    """Whether the options join anything."""
    joined = options.box_rows, options.run_lengths
    named = options.label_columns, options.path_ending, options.path_prefix, options.path_folders
    return any(named) or any(joined)


def join_rows(
    rows: Iterable[Numbered], options: TableOptions, root: str, splits: Sequence[str | None]
) -> Iterator[Numbered]:
    """The rows as a table would have them that has a row an image.

    Args:
      rows: of the table; they are iterated several times.
      options: `box_rows`, `run_lengths`, `label_columns`, `path_ending`, `path_prefix`,
        `path_folders`, and the columns of the images and masks.
      root: the folder that relative paths start from.
      splits: of each table, as its name names it.

    Yields:
      Rows in the order in which their images are first named, each with the number of its table.
    """
    image, mask = (options.columns.get(role) or "" for role in ("image", "mask"))
    joined, runs = rows, options.run_lengths
    if options.box_rows is not None:
        joined = _join(rows, image, functools.partial(_join_boxes, asked=options.box_rows))
    left_out: collections.Counter[str] = collections.Counter()
    if runs is not None:
        joined = _join(rows, image, functools.partial(_join_runs, asked=runs, left_out=left_out))
    for number, row in joined:
        cells = row.cells
        for column, ending in ((image, options.path_ending or ""), (mask, "")):
            path = cells.get(column)
            if (ending or options.path_prefix) and isinstance(path, str | int) and path != "":
                cells = cells | {column: options.without_prefix(str(path).strip()) + ending}
        problem, named = row.problem, str(cells.get(image) or "").strip()
        if options.path_folders and named and not problem:
            found = list_in_folders(root, options.path_folders, named, splits[number])
            cells = cells | {image: found[0] if found else named}
            if len(found) > 1:
                problem = f"{show(named)} is in several folders: {', '.join(found)}"
        if runs is not None and not row.problem and cells.get(image) not in (None, ""):
            path = files.join(root, str(cells[image])) if root else str(cells[image])
            cells = cells | {MASK: refer_to_runs(path, cells[MASK])}
        if options.label_columns and not row.problem:
            cells = _join_labels(cells, options)
        yield number, Row(row.line, cells, problem)
    if left_out:
        counts = ", ".join(f"{name} ({left_out[name]:,})" for name in sorted(left_out))
        noticed(
            f"run lengths of classes that ingest.run_lengths.classes does not name are left out: "
            f"{counts}"
        )


def list_in_folders(
    root: str, folders: Sequence[str], path: str, split: str | None = None
) -> list[str]:
    """The files of a path in the folders named after its split; in all, if there are none."""
    named = split and split_named(split)
    own = [folder for folder in folders if named and split_in_path(folder) == named] or folders
    paths = (f"{folder}/{path}" for folder in own)
    return [each for each in paths if os.path.isfile(os.path.join(root, each))]


def _join_labels(cells: Mapping[str, Any], options: TableOptions) -> dict[str, Any]:
    found = [name for name in options.label_columns if is_yes(cells.get(name))]
    rest = {name: cells[name] for name in cells if name not in options.label_columns}
    if options.column_types.get(LABEL) == "strings":
        return rest | {LABEL: found}
    return rest | {LABEL: found[0] if len(found) == 1 else found or None}


def is_yes(cell: Any) -> bool:
    """Whether a cell says that a row is of its column's class: 1 or true, as text or not."""
    return isinstance(cell, str | int | float) and cell in _YES


def _join(
    rows: Iterable[Numbered], image: str, make: Callable[[list[dict[str, Any]]], dict[str, Any]]
) -> Iterator[Numbered]:
    """A row an image, made of all of its rows, wherever in the table they are.

    Rows that follow one another are joined as they come; only images whose rows are scattered are
    held in memory.
    """
    scattered = _find_scattered(rows, image)
    rows_by_key: dict[Any, list[dict[str, Any]]] = {}
    if scattered:
        for number, row in rows:
            if not row.problem and hash(key := _key(number, row, image)) in scattered:
                rows_by_key.setdefault(key, []).append(row.cells)
    begun: tuple[Any, int, list[dict[str, Any]]] | None = None
    for number, row in rows:
        key = _key(number, row, image)
        if begun is not None and (row.problem or begun[0] != key):
            yield begun[0][0], Row(begun[1], make(begun[2]))
            begun = None
        if row.problem:
            yield number, row
        elif hash(key) in scattered:
            if cells := rows_by_key.pop(key, None):
                yield number, Row(row.line, make(cells))
        elif begun is None:
            begun = key, row.line, [row.cells]
        else:
            begun[2].append(row.cells)
    if begun is not None:
        yield begun[0][0], Row(begun[1], make(begun[2]))


def _key(number: int, row: Row, image: str) -> tuple[int, Any]:
    cell = row.cells.get(image)
    if isinstance(cell, str | int | EmbeddedImage):
        return number, cell
    return number, (row.line, "of no image")


def _find_scattered(rows: Iterable[Numbered], image: str) -> set[int]:
    """Hashes of the images whose rows do not follow one another (and of a few others)."""
    begun, last = array.array("q"), None
    for number, row in rows:
        key = None if row.problem else _key(number, row, image)
        if key is not None and key != last:
            begun.append(hash(key))
        last = key
    ordered = np.sort(np.frombuffer(begun, np.int64))
    return set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())


def _join_boxes(several: list[dict[str, Any]], asked: BoxRowOptions) -> dict[str, Any]:
    """The cells of an image: its boxes, and what all of its rows have in common."""
    boxes = [read_box(cells, asked) for cells in several]
    stated = {SIZE: _read_size(several[0], asked), BOXES: [box for box in boxes if box is not None]}
    consumed = {*asked.numbers, *(asked.size or ()), asked.name, asked.crowd}
    return _in_common(several, consumed) | {JOINED_BOXES: StatedBoxes(stated)}


def _join_runs(
    several: list[dict[str, Any]], asked: RunLengthOptions, left_out: collections.Counter[str]
) -> dict[str, Any]:
    """The cells of an image: its runs, each with a class's id, and what its rows have in common.

    Counts the runs of each class that is not asked for in `left_out`.
    """
    runs = []
    for cells in several:
        text = cells.get(asked.pixels)
        name = str(cells.get(asked.name)).strip() if asked.name else ONLY_CLASS
        if is_no_run(text):
            continue
        if name not in asked.classes:
            left_out[name] += 1
        else:
            runs.append((1 + asked.classes.index(name), str(text)))
    return _in_common(several, {asked.pixels, asked.name}) | {MASK: runs}


def _in_common(several: list[dict[str, Any]], consumed: set[str | None]) -> dict[str, Any]:
    first = several[0]
    return {
        name: first[name]
        for name in first
        if name not in consumed and all(cells.get(name) == first[name] for cells in several)
    }


def read_box(cells: Mapping[str, Any], asked: BoxRowOptions) -> dict[str, Any] | None:
    """A row's box as `box_cells.read_boxes` takes it; None if it has none."""
    numbers = read_numbers(cells, asked.numbers)
    name = ONLY_CLASS if asked.name is None else cells.get(asked.name)
    if all(number in (None, "") for number in numbers):
        return None
    if asked.names and isinstance(name, str | int):
        name = asked.names.get(str(name).strip(), name)
    crowd = is_yes(cells.get(asked.crowd)) if asked.crowd else False
    return {"bbox": numbers, "category": name, "iscrowd": int(crowd)}


def read_numbers(cells: Mapping[str, Any], columns: tuple[str, ...]) -> list[Any]:
    """A box's numbers; anything else stays as it is, for the reader of boxes to refuse."""
    if len(columns) > 1:
        return [as_number(cells.get(column)) for column in columns]
    cell = cells.get(columns[0])
    if isinstance(cell, str):
        parts = cell.strip().strip("[]()").replace(",", " ").split()
        return [as_number(part) for part in parts]
    return list(cell) if isinstance(cell, list | tuple) else [cell]


def as_number(cell: Any) -> Any:
    """A cell of text as a number, if it is one."""
    if not isinstance(cell, str) or not cell.strip():
        return None if isinstance(cell, float) and math.isnan(cell) else cell
    try:
        return float(cell)
    except ValueError:
        return show(cell)


def _read_size(cells: Mapping[str, Any], asked: BoxRowOptions) -> list[int]:
    sides = [] if asked.size is None else [as_number(cells.get(name)) for name in asked.size]
    are_sides = all(isinstance(side, int | float) and side >= 1 for side in sides)
    return [int(side) for side in sides] if are_sides else []
