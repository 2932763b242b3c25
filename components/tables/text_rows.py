"""Rows of text: lists of paths, and CSV in its many forms; one after another, in bounded memory."""

import codecs
import collections
import contextlib
import csv
import functools
import io
import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.file_names import ending_of
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.rows import MOST_COLUMNS, Row, TableError
from image_pipeline.components.sources.source_kinds import Asked, SourceKind
from image_pipeline.components.sources.understood import noticed, understood
from image_pipeline.components.stores.remote import ReadAt
from image_pipeline.components.tables.drawn_masks import RUN_LENGTHS, read_runs
from image_pipeline.components.tables.pixel_cells import PIXELS, hold_pixels, read_pixels

_BUFFER_BYTES = 2**16
_MOST_CHARACTERS = 2**25
"""Of a cell in quotes, and of a line: what is held where quotes or line ends are missing."""
csv.field_size_limit(_MOST_CHARACTERS)


def _read_lines(file: BinaryIO) -> Callable[[int, int], bytes]:
    """Reads a file's bytes from their beginning on; TableError where a line has too many."""
    line_bytes = lines = 0

    def read(start: int, most_bytes: int) -> bytes:
        nonlocal line_bytes, lines
        if not start:  # It is read again.
            line_bytes = lines = 0
        file.seek(start)
        data = file.read(most_bytes)
        ended = max(data.rfind(b"\n"), data.rfind(b"\r"))
        line_bytes = len(data) - ended + (line_bytes if ended < 0 else 0)
        if line_bytes > _MOST_CHARACTERS:
            most = f"{_MOST_CHARACTERS:,} bytes"
            raise TableError(lines + 1, f"a line may have {most}, this has more; shorten it.")
        lines += data.count(b"\n")
        return data

    return read


@contextlib.contextmanager
def open_lines(path: str) -> Iterator[io.TextIOWrapper]:
    """A file's lines, of bounded length, see `as_text`."""
    with files.open_input(path) as file:
        yield as_text(io.BufferedReader(ReadAt(_read_lines(file)), _BUFFER_BYTES))  # type: ignore[type-var,arg-type]


def as_text(file: BinaryIO) -> io.TextIOWrapper:
    """Text with the line ends that it has; bytes that are not UTF-8 as `os.fsdecode` gives them."""
    # A mark at the beginning says UTF-16, which Excel's "Unicode text" is.
    start = file.read(2)
    file.seek(0)
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return io.TextIOWrapper(file, "utf-16", newline="")
    if len(start) == 2 and 0 in start and start != b"\0\0":  # no mark, but a letter of two bytes
        wide = "utf-16-be" if start[0] == 0 else "utf-16-le"
        return io.TextIOWrapper(file, wide, newline="")
    return io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")


_FOREIGN_LETTERS = re.compile(r"[\xc0-\xff]{3}")  # in no western word, but of Cyrillic or Greek
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w+")
_IN_WORDS = "\u2019\xaa\xba\xb0\xb2\xb3"


def find_windows_word(path: str, data: bytes) -> str:
    """A word of a table that is not UTF-8, as cp1252 has it; "" if the table is UTF-8 or 16.

    Raises:
      UserError: if its words are none in that encoding, so that they are of another one.
    """
    head = data[: data.rfind(b"\n") + 1] or data
    if head.isascii() or head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or 0 in head[:2]:
        return ""
    try:
        head.decode()
        return ""
    except UnicodeDecodeError:
        text = head.decode("cp1252", errors="replace")
    if wrong := _find_wrong_word(text):
        raise UserError(
            f"{path!r} is neither UTF-8 nor as Windows writes text in western languages (cp1252), "
            f"as which it has {wrong!r}; save it as UTF-8, as by 'iconv -f ENCODING -t UTF-8', or "
            "Excel's 'CSV UTF-8'."
        )
    return next((word for word in _WORD.findall(text) if not word.isascii()), "")


def _find_wrong_word(text: str) -> str:
    """What no western text has: symbols beside letters, or three letters with accents in a row."""
    for line in text.splitlines():
        if line.isascii():
            continue
        if found := _FOREIGN_LETTERS.search(line):
            return found[0]
        for at, sign in enumerate(line):
            if sign < "\x80" or "\xc0" <= sign <= "\xff" or sign in _IN_WORDS:
                continue
            beside = line[max(0, at - 1) : at + 2]
            if sign == "\ufffd" or len(_LETTER.findall(beside.replace(sign, ""))) > 0:
                return beside
    return ""


def _read_list(path: str, columns: Asked) -> Iterator[Row]:
    """`path label`, with white space between; the label is what follows the last of it.

    Or `image mask`; or the rows of a table with commas, if the first is one without a header; or of
    several columns, see `_find_list_columns`.
    """
    with open_lines(path) as lines:
        first = lines.readline()
        lines.seek(0)
        if "," in first and _name_unnamed(first.strip().split(",")):
            yield from _read_cells(csv.reader(lines, strict=True, skipinitialspace=True))
            return
        head = [lines.readline() for _ in range(_MOST_HEAD)]
        lines.seek(0)
        names, passed = _find_list_columns(head)
        if names:
            yield from _read_columns(path, lines, names, passed)
            return
        for line, text in enumerate(lines, 1):
            named, label = (*text.rsplit(None, 1), "", "")[:2]
            if ending_of(named) in IMAGE_ENDINGS and ending_of(label) in IMAGE_ENDINGS:
                yield Row(line, {"image": named.strip(), "mask": label})
                continue
            if ending_of(label) in IMAGE_ENDINGS:  # The path has a space, and there is no label.
                named, label = text, ""
            if named:
                yield Row(line, {"path": named.strip()} | ({"label": label} if label else {}))


_MOST_HEAD = 20  # lines of a list, to know its columns


def _find_list_columns(head: list[str]) -> tuple[list[str], int]:
    """The columns of a list that has several, and how many lines stand before the first row.

    CelebA's and DeepFashion's lists have the number of rows in the first line, and in the second
    one the columns' names, perhaps without that of the images; others have no number, or lines of
    notes that begin with `#`, or no names: then all that follows the images are numbers.

    Returns:
      No names of what may be a path and a label.
    """
    rows = [line.split() for line in head if line.strip()]
    passed = len(list(itertools.takewhile(lambda cells: cells[0][0] == "#", rows)))
    has_count = len(rows) > 2 and len(rows[0]) == 1 and rows[0][0].isdecimal()
    at = int(has_count)
    if len(rows) > at + 1 and ending_of(rows[at + 1][0]) in IMAGE_ENDINGS and not passed:
        names, cells = rows[at], rows[at + 1]
        are_names = not any(map(_is_number_or_empty, names)) and len(cells) > 1
        if are_names and ending_of(names[0]) not in IMAGE_ENDINGS:
            lacking = len(cells) - len(names)
            return (["image"] * lacking + names, at + 1) if lacking in (0, 1) else ([], 0)
    cells = rows[passed] if len(rows) > passed else [""]
    is_image = ending_of(cells[0]) in IMAGE_ENDINGS
    if len(cells) < (3 if is_image or passed else 4):
        return [], 0
    alike = (len(each) == len(cells) for each in rows[passed:])
    numbers = (_is_number_or_empty(cell) for each in rows[passed:] for cell in each[1:])
    if not (all(alike) and all(numbers)):
        return [], 0
    return _name_unnamed(cells) or ["path", *(f"column_{n}" for n in range(2, len(cells) + 1))], (
        passed
    )


def _read_columns(path: str, lines: Iterable[str], names: list[str], passed: int) -> Iterator[Row]:
    """The rows of a list of several columns, with white space between."""
    names, stated, count = _check_header(names), None, 0
    for line, text in enumerate(lines, 1):
        cells = text.split()
        if passed and cells:
            stated = int(cells[0]) if len(cells) == 1 and cells[0].isdecimal() else stated
            passed -= 1
        elif cells:
            count += 1
            problem = f"the columns are {len(names)}, {', '.join(names)}, but it has {len(cells)}"
            is_row = len(cells) == len(names)
            yield (
                Row(line, dict(zip(names, cells, strict=True)))
                if is_row
                else Row(line, {}, problem)
            )
    if stated not in (None, count):
        noticed(f"{os.path.basename(path)}: the first line says {stated:,} rows, it has {count:,}")


def _read_separated(
    path: str, columns: Asked, pixel_shape: tuple[int, ...] = (), delimiter: str | None = None
) -> Iterator[Row]:
    """A line of names, and then rows; the delimiter is the one that the names have most of."""
    with open_lines(path) as lines:
        names_line = lines.readline()
        separator = _SEPARATOR.fullmatch(names_line.strip())
        if separator is None:  # Excel's own line, which names it, is skipped.
            lines.seek(0)
        delimiter = delimiter or (separator and separator[1]) or max(",;\t|", key=names_line.count)
        reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
        rows = _part_joined(path, _read_cells(reader, passed=int(separator is not None)))
        yield from hold_pixels(path, rows, columns, pixel_shape)


def _part_joined(path: str, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows of which a cell joins image and class, `1.jpg_2` below `ImageId_ClassId`: its parts."""
    names: dict[str, tuple[str, str]] | None = None
    for row in rows:
        if names is None and not row.problem:
            are_joined = (name for name, cell in row.cells.items() if _IMAGE_CLASS.fullmatch(cell))
            found = ((name, _IMAGE_CLASS_NAME.fullmatch(name)) for name in are_joined)
            names = {name: (match[1], match[2]) for name, match in found if match}
            for name, (image, class_) in names.items():
                joined = (
                    f"{os.path.basename(path)}: {name!r} joins image and class by an underscore"
                )
                understood(f"{joined}, and is read as {image!r} and {class_!r}")
        yield _part(row, names) if names and not row.problem else row


def _part(row: Row, names: Mapping[str, tuple[str, str]]) -> Row:
    cells: dict[str, Any] = {}
    for name, cell in row.cells.items():
        if name not in names:
            cells[name] = cell
        elif parts := _IMAGE_CLASS.fullmatch(cell):
            cells |= zip(names[name], parts.groups(), strict=True)
        else:
            problem = f"{cell!r} does not join image and class, as {name!r} does above"
            return Row(row.line, {}, problem)
    return Row(row.line, cells)


def _read_cells(reader: Any, passed: int = 0) -> Iterator[Row]:
    header: list[str] = []
    line, is_done, first = 1 + passed, False, None
    while not is_done:
        try:
            if not header:
                names = [name.strip() for name in next(reader, [])]
                if unnamed := _name_unnamed(names):
                    header, first = unnamed, names
                else:
                    header = _check_header(names)
            if first is not None:
                named = zip(header, first, strict=True)
                yield Row(line, {name: cell for name, cell in named if name})
                first = None
            line = reader.line_num + 1 + passed
            for cells in reader:
                if len(cells) == len(header):
                    yield Row(line, {name: cells[at] for at, name in enumerate(header) if name})
                elif cells:
                    counted = f"the first line names {len(header)} columns, but it has {len(cells)}"
                    yield Row(line, {}, counted)
                line = reader.line_num + 1 + passed
            is_done = True
        except csv.Error as error:
            # Where the row ends is known if the error is on its only line.
            if not header or reader.line_num + passed > line or "end of data" in str(error):
                problem = f"not a row of a table ({error}); correct its quotes."
                raise TableError(line, problem) from error
            yield Row(line, {}, f"it is not a row ({error}); correct its quotes")


def _name_unnamed(cells: list[str]) -> list[str]:
    """Names for the columns of a table whose first line is a row already; none if it is not a row.

    It is one if its first cell is an image's path, and what follows is a class, a box of four
    numbers and its class, or the numbers of a box alone. In Vertex AI's form, the first cell may be
    a split, and a box has two or four corners of two numbers each, of which the second and the
    fourth may be empty.
    """
    if (cells[0].strip().lower() if cells else "") in _VERTEX_SPLITS and len(cells) > 1:
        rest = _name_unnamed(cells[1:])
        return ["split", *rest] if rest else []
    if ending_of(cells[0] if cells else "") not in IMAGE_ENDINGS:
        return []
    numbers = [_is_number_or_empty(cell) for cell in cells[1:]]
    if len(cells) == 2:
        return ["image", "label"]
    if len(cells) == 10 and all(numbers[1:]):
        return ["image", "label", "xmin", "ymin", "", "", "xmax", "ymax", "", ""]
    if len(cells) == 6 and all(numbers[:4]) and (not numbers[4] or cells[5] == ""):
        return ["image", *_BOX, "label"]
    if len(cells) == 6 and all(numbers[1:]) and not numbers[0]:
        return ["image", "label", *_BOX]
    return ["image", *_BOX] if len(cells) == 5 and all(numbers) else []


_VERTEX_SPLITS = ("train", "training", "validation", "validate", "test", "unassigned", "")
_BOX = ("box_1", "box_2", "box_3", "box_4")
# As Severstal's ImageId_ClassId has 0002cc93b.jpg_1, and Clouds' Image_Label 0011165.jpg_Fish.
_IMAGE_CLASS_NAME = re.compile(r"(.+)_(class(?:_?id)?|label|category)", re.IGNORECASE)
_IMAGE_CLASS = re.compile(
    rf"(.+(?:{'|'.join(map(re.escape, sorted(IMAGE_ENDINGS)))}))_(.+)", re.IGNORECASE
)
_SEPARATOR = re.compile(r"sep=(.)", re.IGNORECASE)


def _is_number_or_empty(cell: str) -> bool:
    try:
        return not cell.strip() or math.isfinite(float(cell))
    except ValueError:
        return False


def _check_header(names: list[str]) -> list[str]:
    """The names; empty ones, such as that of a data frame's index, are left out later."""
    if len(names) > MOST_COLUMNS:
        problem = f"the first line names {len(names):,} columns; a table may have {MOST_COLUMNS:,}"
        raise TableError(1, f"{problem}: leave out those that are not used.")
    if not any(names):
        raise TableError(1, "the first line must name the columns, and is empty.")
    if path := next((name for name in names if ending_of(name) in IMAGE_ENDINGS), None):
        problem = f"the first line must name the columns, got {path!r}; add one such as path,label."
        raise TableError(1, problem)
    counts = collections.Counter(filter(None, names))
    if all(map(_is_number_or_empty, names)) and (
        counts.total() > len(counts) or not all(name.isdecimal() for name in counts)
    ):
        shown = ", ".join(list(map(repr, counts))[:3])
        problem = f"the first line must name the columns, and has only numbers, {shown}, …; add a"
        raise TableError(1, f"{problem} line before it, such as label,pixel0,pixel1,… for pixels.")
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise TableError(1, f"two columns are called {repeated[0]!r}; rename one.")
    return names


LIST = SourceKind(name="a table", endings=(".txt", ".lst", ".list"), rows=_read_list)
CSV = SourceKind(
    name="a table",
    endings=(".csv",),
    rows=_read_separated,
    takes_shape=True,
    locations={RUN_LENGTHS: read_runs, PIXELS: read_pixels},
)
TSV = SourceKind(
    name="a table",
    endings=(".tsv", ".tab"),
    rows=functools.partial(_read_separated, delimiter="\t"),
    takes_shape=True,
)
TEXTS = (LIST, CSV, TSV)
"""Those that are text of any encoding."""
