"""What the four numbers of boxes are, where nothing states it: found from all boxes and sizes."""

import dataclasses
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from PIL import Image

from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.box_cells import StatedBoxes, read_boxes
from image_pipeline.components.labels.boxes import Format
from image_pipeline.components.sources.folder import Folder, locate
from image_pipeline.components.sources.options import BoxRowOptions, TableOptions
from image_pipeline.components.sources.references import Annotations, ImageRef
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.tables.joined_rows import (
    as_number,
    list_in_folders,
    read_numbers,
)

_MOST_SIZES = 200  # images whose headers are read
_MOST_BYTES = 2**18  # of a file, for its size
_MOST_KEPT = 100_000  # boxes by which an unusual order is recognised
_MISFITS = 0.02  # of the boxes may be wrong by any reading
_SLACK_PX = 1.0  # by which a box may stick out: 1-based corners do
_SLACK_SHARE = 1e-3

Sized = tuple[Sequence[float], tuple[float, float] | None]  # a box, and its image's size


@dataclasses.dataclass(frozen=True)
class Judged:
    """What boxes' numbers are: for `ingest.boxes.format`, and in words."""

    format: Format
    words: str


@dataclasses.dataclass
class _Tally:
    """How many boxes fit which reading."""

    boxes: int = 0
    sized: int = 0
    ordered: int = 0  # The third and fourth number are not below the first and second.
    shares: int = 0  # All numbers are from 0 to 1.
    fractions: int = 0
    corners: int = 0  # Read as corners, it is inside.
    sides: int = 0  # Read as a corner and sides, it is inside.
    centers: int = 0

    def see(self, box: Sequence[float], size: tuple[float, float] | None) -> None:
        """Takes a box into account."""
        a, b, c, d = box
        self.boxes += 1
        self.ordered += c >= a and d >= b
        self.shares += all(-_SLACK_SHARE <= n <= 1 + _SLACK_SHARE for n in box)
        self.fractions += any(n % 1 for n in box)
        if size is None:
            return
        self.sized += 1
        width, height = size
        self.corners += c >= a and d >= b and _is_in(c, width) and _is_in(d, height)
        self.sides += _is_in(a + c, width) and _is_in(b + d, height)
        self.centers += (
            _is_in(a + c / 2, width)
            and _is_in(b + d / 2, height)
            and a - c / 2 >= -_SLACK_PX
            and b - d / 2 >= -_SLACK_PX
        )


def _is_in(end: float, side: float) -> bool:
    return end <= side + _SLACK_PX


def read_order(
    path: str,
    options: TableOptions,
    rows: Iterable[tuple[int, Any]],
    image: str,
    asked: BoxRowOptions,
    order: str | None,
) -> Judged:
    """What the numbers of a table are that has a box a row; raises as `judge_order`."""
    boxes = _list_boxes(path, options, rows, image, asked)
    return judge_order(path, boxes, order, ", ".join(asked.numbers))


def _list_boxes(
    path: str,
    options: TableOptions,
    rows: Iterable[tuple[int, Any]],
    image: str,
    asked: BoxRowOptions,
) -> Iterator[Sized]:
    sizes = ImageSizes(path, options)
    for _, row in rows:
        numbers = [] if row.problem else read_numbers(row.cells, asked.numbers)
        if len(numbers) != 4 or not all(isinstance(each, int | float) for each in numbers):
            continue
        if asked.size is not None:
            sides = [as_number(row.cells.get(name)) for name in asked.size]
            are_sides = all(isinstance(side, int | float) for side in sides)
            yield numbers, (sides[0], sides[1]) if are_sides else None
        else:
            yield numbers, sizes.of(row.cells.get(image))


def read_cells_order(
    path: str, options: TableOptions, rows: Iterable[tuple[int, Any]]
) -> Judged | None:
    """What the numbers of boxes in cells are, where most do not fit COCO's order, the usual one.

    Returns:
      None if they fit it, or say themselves what they are.

    Raises:
      UserError: if they fit neither it nor another order, or shares that may be of two.
    """
    column, image = options.columns["boxes"], options.columns.get("image")
    sizes, boxes = ImageSizes(path, options), list[Sized]()
    usual, corners, shares, fractions, count = 0, 0, 0, 0, 0
    for _, row in rows:
        cell = row.cells.get(column)
        if isinstance(cell, StatedBoxes):
            return None
        try:
            found = [] if row.problem else read_boxes(cell)[1]
        except ValueError:
            continue  # Its own row's problem.
        size = sizes.of(row.cells.get(image)) if found else None
        for box in found:
            count += 1
            a, b, c, d = box.numbers
            usual += size is None or (_is_in(a + c, size[0]) and _is_in(b + d, size[1]))
            are_corners = size is None or (_is_in(c, size[0]) and _is_in(d, size[1]))
            corners += are_corners and c >= a and d >= b
            shares += max(box.numbers) <= 1
            fractions += any(number % 1 for number in box.numbers)
            if len(boxes) < _MOST_KEPT:
                boxes.append((box.numbers, size))
    are_shares = count > 0 and shares == count and fractions > 0
    most = count * (1 - _MISFITS)
    # Where no order is better, each box that sticks out is its image's own problem.
    if not are_shares and (usual >= most or (corners < most and 2 * usual >= count)):
        return None
    return judge_order(path, boxes, None, str(column))


class ImageSizes:
    """Widths and heights of a table's images, by reading the headers of the first of them."""

    def __init__(self, path: str, options: TableOptions):
        folder = kind_of(path).folder(path)
        root = locate(folder, options.root_dir) if options.root_dir else folder
        self._source, self._options, self._root = Folder(root), options, root
        self._known: dict[str, tuple[float, float] | None] = {}

    def of(self, cell: Any) -> tuple[float, float] | None:
        """The size of the image that a cell names; None if it is not known."""
        if not isinstance(cell, str | int) or cell == "":
            return None
        named = self._options.without_prefix(str(cell).strip()) + (self._options.path_ending or "")
        name = named.replace("\\", "/")
        found = list_in_folders(self._root, self._options.path_folders, name)
        name = found[0] if len(found) == 1 else name
        if name not in self._known:
            if len(self._known) >= _MOST_SIZES:
                return None
            self._known[name] = self._measure(name)
        return self._known[name]

    def _measure(self, name: str) -> tuple[float, float] | None:
        ref = ImageRef(os.path.normpath(name), _MOST_BYTES, 0, annotations=Annotations(""))
        try:
            data = self._source.read(ref, _MOST_BYTES)
            with Image.open(io.BytesIO(data)) as opened:
                width, height = opened.size
        except Exception:  # Ingest will say what is wrong with it.
            return None
        return float(width), float(height)


def judge_order(path: str, boxes: Iterable[Sized], order: str | None, columns: str) -> Judged:
    """What boxes' four numbers are.

    Args:
      path: of the table, for messages.
      boxes: all of them, with their images' sizes, where these are known.
      order: what their names say: "xyxy", "xywh" or "center_xywh"; None if they say nothing.
      columns: their names, for messages.

    Raises:
      UserError: if it cannot be known, or they fit no reading, or not the one that names say.
    """
    tally = _Tally()
    for box, size in boxes:
        tally.see(box, size)
    if not tally.boxes:
        return Judged(order or "xywh", "none of which has four numbers")  # type: ignore[arg-type]
    most = tally.boxes * (1 - _MISFITS)
    is_share = tally.shares >= most and tally.fractions > 0
    if is_share:
        return _judge_shares(path, tally, order, columns)
    fitting = {
        "xyxy": tally.ordered >= most and tally.corners >= tally.sized * (1 - _MISFITS),
        "xywh": tally.sides >= tally.sized * (1 - _MISFITS),
        "center_xywh": tally.centers >= tally.sized * (1 - _MISFITS),
    }
    if order is not None and fitting[order]:
        return _word(order, columns, tally, "")
    if order is None and not fitting["xywh"] and fitting["xyxy"]:
        return _word("xyxy", columns, tally, ", since as widths and heights most would stick out")
    if order is None and fitting["xywh"] and not fitting["xyxy"]:
        return _word("xywh", columns, tally, ", since as corners some would have no area")
    raise UserError(_explain(path, tally, fitting, order, columns))


def _judge_shares(path: str, tally: _Tally, order: str | None, columns: str) -> Judged:
    most = tally.boxes * (1 - _MISFITS)
    if order is None and tally.ordered >= most:
        raise UserError(_explain(path, tally, {"xyxy": True, "xywh": True}, order, columns, "rel_"))
    chosen = order or "xywh"
    if chosen == "xyxy" and tally.ordered < most:
        raise UserError(_explain(path, tally, {}, order, columns, "rel_"))
    return _word(chosen, columns, tally, "", "rel_")


_WORDS = {
    "xyxy": "left, top, right and bottom",
    "xywh": "left, top, width and height",
    "center_xywh": "a centre, a width and a height",
}


def _word(order: str, columns: str, tally: _Tally, why: str, unit: str = "") -> Judged:
    unit_name = "shares of the image" if unit else "pixels"
    words = f"{columns} are {_WORDS[order]} in {unit_name}, by {tally.boxes:,} boxes{why}"
    return Judged(f"{unit}{order}", f"{words} (ingest.boxes.format)")  # type: ignore[arg-type]


def _explain(
    path: str,
    tally: _Tally,
    fitting: dict[str, bool],
    order: str | None,
    columns: str,
    unit: str = "",
) -> str:
    may = [name for name in _WORDS if fitting.get(name)]
    named = f" ({_WORDS[order]}, as they are called)" if order else ""
    fit = "several readings" if len(may) > 1 else "another reading" if may else "no one reading"
    found = (
        f"The numbers of boxes in {path!r}, {columns}{named}, fit {fit}: of {tally.boxes:,} boxes, "
        f"{tally.sized:,} are in images of known size"
    )
    ways = "; ".join(f"for {_WORDS[n]}, set ingest.boxes.format={unit}{n}" for n in may or _WORDS)
    return f"{found}. Say what they are: {ways}."
