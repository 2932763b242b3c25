"""Images that a table of text writes out: their pixels as numbers in a cell, or a column for each.

FER2013 has cells of `70 80 82 …`, MNIST as CSV has the columns `pixel0` to `pixel783`.
"""

import base64
import itertools
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.images.npy import make_header
from image_pipeline.components.sources.column_types import Items
from image_pipeline.components.sources.file_names import ending_of
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import (
    EmbeddedImage,
    Location,
    Row,
    TableError,
    Unusable,
    explain_misfit,
)
from image_pipeline.components.sources.understood import understood

PIXELS = "pixels"
"""How such an image is read, and what the cell is called that is made of many."""

_LEAST = 64  # numbers: fewer are not an image
_LOOKED_AT = 20  # rows: the first image may be all black, and a few may be wrong
_ENOUGH = 0.9  # of a row's numbers
_CALLED = ("pixels", "pixel", "pixel_values", "image")
_CALLED_PIXEL = re.compile(r"(?:.*[^a-z])?(?:pixels?|px|pix)[^a-z]*", re.IGNORECASE)
_OF_LISTS = str.maketrans("[],", "   ")
# pandas writes whole numbers as 70.0 where a column has an empty cell.
_ONE = r"0*(?:\d{1,2}|1\d\d|2[0-4]\d|25[0-5])(?:\.0*)?"
_LEVEL = re.compile(rf"\s*{_ONE}\s*")
_LEVELS = re.compile(rf"\s*{_ONE}(?:\s+{_ONE})*\s*")
_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?\s*", re.IGNORECASE)
_NUMBERED = re.compile(r"(\D*)\d+(?:x\d+)?")
_DTYPE = np.dtype(np.uint8)
_MOST_SHOWN = 20  # characters of a wrong value


def hold_pixels(
    path: str, rows: Iterable[Row], columns: Mapping[str, str | None], shape: tuple[int, ...]
) -> Iterator[Row]:
    """Rows whose pixels are images; without a shape, lists of numbers.

    The first rows that can be read tell whether there are any.

    Args:
      path: of the table.
      rows: of it, cells of text.
      columns: those that are asked for: where one of them is the image, no others are its pixels.
      shape: of the images; nothing if it is not stated.

    Raises:
      TableError: if columns or cells are named like pixels, but are other numbers.
    """
    rows = iter(rows)
    first = list(itertools.islice(rows, _LOOKED_AT))
    known = [row for row in first if not row.problem]
    joined = _find_columns(path, known, columns) if known else []
    embedded = PIXELS if joined else next((n for n in _names(known) if _is_pixels(n, known)), None)
    modified_ns = files.stat_file(path)[1] if embedded else 0
    for row in itertools.chain(first, rows):
        if embedded is None or row.problem:
            yield row
            continue
        cells = {name: cell for name, cell in row.cells.items() if name not in joined}
        text = (
            " ".join(row.cells[n] for n in joined)
            if joined
            else _without_marks(row.cells[embedded])
        )
        yield Row(row.line, cells | {embedded: _hold(path, row.line, text, shape, modified_ns)})


def _find_columns(path: str, rows: Sequence[Row], columns: Mapping[str, str | None]) -> list[str]:
    """The columns of a table without paths of images that are a pixel each; none if there are few.

    They are numbered behind the same word, or behind none, in the order of pixels. Of 0 and 1
    alone, they are classes, a column each, unless they are named like pixels.
    """
    if columns.get("image") not in (None, PIXELS) or any(
        ending_of(cell) in IMAGE_ENDINGS for cell in rows[0].cells.values()
    ):
        return []
    words: dict[str, list[str]] = {}
    for name in _names(rows):
        if found := _NUMBERED.fullmatch(name):
            words.setdefault(found[1], []).append(name)
    word, names = max(words.items(), key=lambda item: len(item[1]), default=("", []))
    if len(names) < _LEAST:
        return []
    is_called = bool(_CALLED_PIXEL.fullmatch(word)) or "x" in names[0].removeprefix(word)
    cells = [[row.cells[name] for name in names] for row in rows]
    if not _are_levels(rows[0].line, repr(f"{names[0]} … {names[-1]}"), cells, is_called):
        return []
    if not is_called and all(each.strip() in ("", "0", "1") for row in cells for each in row):
        return []
    ordered = _order(names)
    columns_shown = f"{os.path.basename(path)}: the columns from {ordered[0]!r} to {ordered[-1]!r}"
    by_number = ", in the order of their numbers" * (ordered != names)
    understood(f"{columns_shown} are taken as the pixels of an image, a row each{by_number}")
    return ordered


def _names(rows: Sequence[Row]) -> list[str]:
    return list(rows[0].cells) if rows else []


def _order(names: Sequence[str]) -> list[str]:
    """By their numbers; of two, as in `1x28`, by either first, if they are in that order."""
    numbers = {name: list(map(int, re.findall(r"\d+", name))) for name in names}
    by_second = sorted(names, key=lambda name: numbers[name][::-1])
    return by_second if by_second == [*names] else sorted(names, key=numbers.__getitem__)


def _is_pixels(name: str, rows: Sequence[Row]) -> bool:
    if name.lower() not in _CALLED:
        return False
    cells = [_without_marks(row.cells[name]).split() for row in rows]
    return max(map(len, cells)) >= _LEAST and _are_levels(rows[0].line, repr(name), cells, True)


def _without_marks(cell: str) -> str:
    """A list's numbers with blanks between, as most tables have them at once."""
    return cell.translate(_OF_LISTS)


def _are_levels(line: int, what: str, rows: Sequence[Sequence[str]], is_called: bool) -> bool:
    """Whether most numbers of most rows are levels; raises TableError as `hold_pixels` does."""

    def are_most(pattern: re.Pattern[str]) -> bool:
        fitting = (sum(bool(pattern.fullmatch(cell)) for cell in row) for row in rows)
        pairs = zip(fitting, rows, strict=True)
        return 2 * sum(fits >= _ENOUGH * max(1, len(row)) for fits, row in pairs) > len(rows)

    are_levels = are_most(_LEVEL)
    if is_called and not are_levels and are_most(_NUMBER):
        other = next(cell for row in rows for cell in row if not _LEVEL.fullmatch(cell))
        raise TableError(
            line,
            f"{what} are named like pixels, but have values such as {other}; in a table of "
            "text, pixels are whole numbers from 0 to 255: scale and round them, or save images "
            "and labels as the arrays of an .npz file.",
        )
    return are_levels


def _hold(
    path: str, line: int, text: str, shape: tuple[int, ...], modified_ns: int
) -> EmbeddedImage | Unusable | Items | None:
    """The image, which is kept with its row: a table of text cannot be read in parts."""
    if not text.strip():
        return None
    if not _LEVELS.fullmatch(text):
        other = next(each for each in text.split() if not _LEVEL.fullmatch(each))
        problem = f"its value {other[:_MOST_SHOWN]!r} is not a whole number from 0 to 255"
        return Unusable(problem, is_images=True)
    levels = np.array(text.split(), np.float64).astype(_DTYPE)
    if not shape:
        return Items(levels.tolist(), "int")
    if len(levels) != math.prod(shape):
        misfit = explain_misfit(f"{len(levels):,} values", shape)
        return Unusable(misfit, is_images=True, size_bytes=len(levels))
    packed = base64.b85encode(zlib.compress(levels.tobytes())).decode()
    inside = f"{'x'.join(map(str, shape))} {packed}"
    size_bytes = len(make_header(_DTYPE, shape)) + len(levels)
    return EmbeddedImage(Location(path, PIXELS, line, 1, inside), size_bytes, modified_ns)


def read_pixels(ref: ImageRef, most_bytes: int) -> bytes:
    """The `.npy` file of an image that a table writes out; see `source_kinds.Reader`."""
    assert ref.location is not None
    sides, packed = ref.location.inside.split(" ")
    header = make_header(_DTYPE, tuple(map(int, sides.split("x"))))
    return (header + zlib.decompress(base64.b85decode(packed)))[:most_bytes]
