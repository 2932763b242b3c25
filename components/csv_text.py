"""CSV files that a spreadsheet may open: no cell of a person's data becomes a formula there."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from image_pipeline.components import files

# What spreadsheets take for a formula, by its first character, unless it is a number. A cell that
# looks as if it had been marked is marked once more, so that reading undoes it.
_FORMULA = re.compile(r"'*(?:[=@\t\r]|[+-](?![\d.]+\Z))")


def write_csv(path: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table; text that a spreadsheet would compute gets a `'` in front, as its users do.

    Args:
      path: of the file, or its URI.
      columns: the names, in the first line.
      rows: a cell for each column.
    """
    table = io.StringIO(newline="")
    # By default Python does not quote a carriage return, and then reads it as the end of a row.
    writer = csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(columns)
    writer.writerows([_mark(cell) for cell in row] for row in rows)
    files.write_file(path, table.getvalue().encode(errors="backslashreplace"))


def read_csv(path: str) -> list[dict[str, str]]:
    """Reads what `write_csv` wrote: the cells as text, by the names of their columns."""
    text = io.StringIO(files.read_file(path).decode(), newline="")
    return [{name: _unmark(cell) for name, cell in row.items()} for row in csv.DictReader(text)]


def _mark(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _unmark(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
