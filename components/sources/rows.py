"""A row of a table, whatever holds it: a line of text, a record, an index of arrays; and its cells.

A cell may be an image, given by its location.
"""

import dataclasses
import datetime
import decimal
import math
import operator
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from image_pipeline.components.errors import UserError

LOST = "what follows is lost"
"""How the problem of a row ends that may stand for all behind it, too."""
BOX_COLUMN = "image/object/bbox"
"""The column that the features of boxes in TFRecords are."""
NAME = "__name__"
"""The column of what images are called that a table holds, where none of its own says so."""

MOST_COLUMNS = 10_000
"""Of a table, and of a row: each is a feature of every record, and a column of the index."""

# What no text has; of it, bytes that are pixels have some nearly always.
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
FREE_ROWS = 2**20
"""Of what a file says it has. Rows that were never written take no bytes, and zeros a thousandth of
their own; but no file of images has more rows than this, and than it has bytes."""
_MOST_NAME_BYTES = 255  # of a file's name: so many may be in any encoding


class Compact:
    """What there are millions of: pickled by its fields, in a sixth of a dataclass's own time."""

    __slots__ = ()
    fields: ClassVar[operator.attrgetter]

    def __init_subclass__(cls) -> None:
        cls.fields = operator.attrgetter(*cls.__annotations__)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), type(self).fields(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Location(Compact):
    """Where an image is that has no file of its own.

    Attributes:
      file: the path or URI of what holds it.
      kind: how it is read from there: a name that `source_kinds.read_location` knows.
      start: its first byte in the file, or the number of its row, from 0.
      length: how many bytes or rows.
      inside: what of the file it is in, such as an array's name.
      crc: the CRC-32 of its bytes; None if the file has none.
      within: where the file itself is, if it is a member of an archive.
    """

    file: str
    kind: str
    start: int
    length: int = 1
    inside: str = ""
    crc: int | None = None
    within: "Location | None" = None


@dataclasses.dataclass(frozen=True, slots=True)
class EmbeddedImage(Compact):
    """A table's cell with an embedded image, or a mask, where others have its path.

    Attributes:
      location: where its bytes are.
      size_bytes: how many there are, once they are unpacked.
      modified_ns: when the file that holds it was changed, as in `ImageRef`.
    """

    location: Location
    size_bytes: int
    modified_ns: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Unusable:
    """A table's cell that nothing can be made of, such as bytes that are neither text nor image.

    Attributes:
      why: what it has, and what may be done, as an error says it.
      is_images: whether it has several images: beside a column of images it may be left out.
      size_bytes: how many bytes it is that may be pixels.
    """

    why: str
    is_images: bool = False
    size_bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Row(Compact):
    """One row.

    Attributes:
      line: the line that it begins on, counted from 1; in Parquet, the number of the row; in an
        array, its index, from 0.
      cells: by the names of their columns; what is empty is None or "", or left out.
      problem: why it has no cells; None for a row like any other.
    """

    line: int
    cells: dict[str, Any]
    problem: str | None = None


class TableError(ValueError):
    """Where a file cannot be read any further: its line, and why."""

    def __init__(self, line: int, problem: str):
        super().__init__(line, problem)
        self.line = line
        self.problem = problem


def check_rows(path: str, rows: int, count_bytes: Callable[[], int]) -> None:
    """Refuses a file that says it has more rows than it can have images; see `FREE_ROWS`.

    Args:
      path: of the file.
      rows: how many it says.
      count_bytes: gives its size, which is only asked for of many rows.

    Raises:
      UserError: if they are too many.
    """
    if rows <= FREE_ROWS or rows <= (size_bytes := count_bytes()):
        return
    raise UserError(
        f"{path!r} says that it has {rows:,} rows, in {size_bytes:,} bytes: of more than "
        f"{FREE_ROWS:,} rows, most were never written, or are all the same; leave them out."
    )


def is_text(data: bytes) -> bool:
    """Tells whether bytes are likely text: without controls, and UTF-8 if there are many."""
    if _CONTROLS.search(data):
        return False
    try:
        return len(data) <= _MOST_NAME_BYTES or bool(data.decode())
    except UnicodeDecodeError:
        return False


def plain(cell: Any) -> Any:
    """A value as JSON could have it: dates and decimals are text, and so are bytes."""
    if isinstance(cell, bytes):
        return os.fsdecode(cell)
    if isinstance(cell, datetime.date | datetime.time | decimal.Decimal):
        return str(cell)
    return cell


# Rows of fewer values than a square of so many pixels a side are features, and no images.
_LEAST_SIDE = 8


def guess_shape(values: int) -> tuple[int, int, int] | None:
    """Height, width and channels of a square, gray or in colours; None if it can be neither."""
    for channels in (1, 3):
        side = math.isqrt(values // channels)
        if side >= _LEAST_SIDE and channels * side**2 == values:
            return side, side, channels
    return None


def explain_misfit(has: str, shape: Sequence[int]) -> str:
    """That an image has other values than the shape that is stated; `has` is which."""
    stated = f"ingest.pixel_shape={list(shape)}"
    return f"it has {has}, but {stated} are {math.prod(shape):,} values"
