"""CSV files that a spreadsheet may open: no cell of a person's data becomes a formula there."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_files import check_json, read_whole

T = TypeVar("T")

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


def read_csv(path: str, kind: type[T], way_out: str) -> list[T]:
    """Reads what `write_csv` wrote.

    Args:
      path: of the file.
      kind: what a row must be, of text by the names of columns.
      way_out: what to do if it is damaged, as the end of a sentence.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if it cannot be read, or holds something else.
    """
    content = read_whole(path, way_out)
    try:
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""), restkey="", restval="")
        cells = ({name: _unmark(str(cell)) for name, cell in row.items()} for row in rows)
        return [check_json(row, kind) for row in cells]
    except (ValueError, csv.Error) as error:
        raise UserError(f"{path!r} is damaged ({error}); {way_out}.") from error


def _mark(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _unmark(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
