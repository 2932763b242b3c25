"""A row of a table, whatever holds it: a line of text, a record, an index of arrays."""

import dataclasses
import datetime
import decimal
import os
import re
from collections.abc import Callable
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.held import Compact

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
        """Keeps both."""
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
