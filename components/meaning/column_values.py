"""What the values of a table's columns are, found from all of its rows; which are tags."""

import collections
import dataclasses
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from image_pipeline.components.sources.rows import Row
from image_pipeline.components.tables.rows_once import TableRows

_LOOKED_FOR = 50  # rows whose files are looked for
_MOST_VALUES = 1000  # of a column of classes
_NUMBER = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][a-z]*|[A-Z]+")
_SEPARATORS = (";", "|", ",")
_ENOUGH = 0.5  # of the parts of cells of tags must occur in several
TAG_COLUMNS = ("tags", "keywords")
"""What people call a column of tags."""


@dataclasses.dataclass
class ColumnValues:
    """What the values of a column are.

    Attributes:
      counts: of its values, as text; empty if there are very many.
      is_many: whether there are more than a column of classes has.
      is_plain: whether all are text or numbers.
      has_fraction: whether any is a number that is not whole.
    """

    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    is_many: bool = False
    is_plain: bool = True
    has_fraction: bool = False

    def see(self, cell: Any) -> None:
        """Takes a cell into account."""
        if not isinstance(cell, str | int | float):
            self.is_plain = False
            return
        if not self.is_many:
            self.counts[str(cell).strip()] += 1
            self.is_many = len(self.counts) > _MOST_VALUES
        if self.has_fraction:
            return
        try:
            self.has_fraction = float(cell) % 1 != 0
        except (ValueError, OverflowError):
            return

    @property
    def values(self) -> set[str]:
        """All of them; empty cells are none."""
        return set(self.counts) - {""}

    @property
    def may_be_label(self) -> bool:
        """Whether there are several values, of which each is of several rows."""
        values = self.values
        is_few = self.is_plain and not self.is_many and len(values) >= 2
        return is_few and not self.has_fraction and 2 * len(values) <= self.counts.total()

    @property
    def are_words(self) -> bool:
        """Whether there are few values, each of several rows, and none is a number."""
        values = self.values
        is_few = self.is_plain and not self.is_many and 2 * len(values) <= self.counts.total()
        return is_few and bool(values) and not any(map(_NUMBER.fullmatch, values))

    @property
    def is_yes_or_no(self) -> bool:
        """Whether each value says that a row is of the column's class, or that it is not."""
        values = {value.lower().removesuffix(".0") for value in self.values}
        is_either = values <= {"0", "1", "true", "false"} or values == {"-1", "1"}
        return self.is_plain and not self.is_many and bool(values) and is_either


def first_rows(rows: TableRows) -> Iterator[tuple[int, Row]]:
    """The first rows of each table that can be read."""
    counts: collections.Counter[int] = collections.Counter()
    for number, row in rows:
        if not row.problem and counts[number] < _LOOKED_FOR:
            yield number, row
            counts[number] += 1
            if len(counts) == len(rows.tables) and counts[number] == _LOOKED_FOR:
                return


def look_at(rows: TableRows, names: Sequence[str] | None) -> dict[str, ColumnValues]:
    """The values of some columns, or of all, by the columns' names."""
    columns: dict[str, ColumnValues] = collections.defaultdict(ColumnValues)
    for _, row in rows:
        for name in row.cells if names is None else names:
            cell = row.cells.get(name)
            if cell is not None:
                columns[name].see(cell)
    return columns


def plain_name(name: str) -> str:
    """A column's name without what only sets words apart: `bboxxmin` of `BBox_X-min`."""
    return re.sub(r"[\W_]+", "", name.lower())


def words_of(name: str) -> set[str]:
    """The words of a name, in small letters."""
    return {word.lower() for word in _WORD.findall(name)}


def find_separator(cells: Mapping[str, int], column: str = "") -> str | None:
    """What separates tags, if cells are lists of tags.

    Tags are combined freely: parts of one cell occur in others. Names of classes that have a comma,
    as "tench, Tinca tinca", have parts of their own.

    Args:
      cells: each different one, with how often it occurs.
      column: what it is called: blanks may be between tags where it is called so.
    """
    for separator in (*_SEPARATORS, *((" ",) if column.lower() in TAG_COLUMNS else ())):
        found = [{part.strip() for part in cell.split(separator)} - {""} for cell in cells]
        parts = collections.Counter(part for own in found for part in own)
        repeated = sum(count > 1 for count in parts.values())
        if any(len(own) > 1 for own in found) and repeated >= _ENOUGH * len(parts):
            return separator
    return None


def find_joined(classes: Mapping[str, int], column: str) -> Iterator[str]:
    """A sentence on classes that are several names in a cell, if they are."""
    if separator := find_separator(classes, column):
        first = next(name for name in classes if separator in name)
        option = shlex.quote(f"ingest.tag_separator={json.dumps(separator)}")
        yield f"classes of {column!r} are names joined, as {first!r}; {option} makes these tags"
