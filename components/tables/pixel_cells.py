"""Images that a table of text writes out: their pixels as numbers in a cell, or a column for each.

FER2013 has cells of `70 80 82 …`, MNIST as CSV has the columns `pixel0` to `pixel783`.
"""

import base64
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.images.npy import make_header
from image_pipeline.components.sources.column_types import Items
from image_pipeline.components.sources.file_names import ending_of
from image_pipeline.components.sources.pixel_shapes import explain_misfit
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import EmbeddedImage, Location, Row, Unusable
from image_pipeline.components.sources.understood import understood

PIXELS = "pixels"
"""How such an image is read, and what the cell is called that is made of many."""

_LEAST = 64  # numbers: fewer are no image
_CALLED = ("pixels", "pixel", "pixel_values", "image")
_LEVELS = re.compile(r"\s*\d{1,3}(?:\s+\d{1,3})*\s*")
_NUMBERED = re.compile(r"(\D*)\d+(?:x\d+)?")
_NO_LEVELS = "it has other than whole numbers from 0 to 255 with blanks between"
_TOO_LARGE = "its level {} is none of 0 to 255"
_LEVEL, _TOP = np.dtype(np.uint8), 255


def hold_pixels(
    path: str, rows: Iterable[Row], columns: Mapping[str, str | None], shape: tuple[int, ...]
) -> Iterator[Row]:
    """Rows whose pixels are images; without a shape, lists of numbers.

    The first row that can be read tells whether there are any.

    Args:
      path: of the table.
      rows: of it, cells of text.
      columns: those that are asked for: where one of them is the image, no others are its pixels.
      shape: of the images; nothing if it is not stated.
    """
    known, joined, held, modified_ns = False, list[str](), None, 0
    for row in rows:
        if not known and not row.problem:
            known, joined = True, _find_columns(row.cells, columns)
            held = PIXELS if joined else next((n for n in row.cells if _is_pixels(n, row)), None)
            modified_ns = files.stat_file(path)[1] if held else 0
            if joined:
                told = f"{os.path.basename(path)}: the columns from {joined[0]!r} to {joined[-1]!r}"
                understood(f"{told} are taken as the pixels of an image, a row each")
        if held is None or row.problem:
            yield row
            continue
        cells = {name: cell for name, cell in row.cells.items() if name not in joined}
        text = " ".join(row.cells[name] for name in joined) if joined else cells[held]
        yield Row(row.line, cells | {held: _hold(path, row.line, text, shape, modified_ns)})


def _find_columns(cells: Mapping[str, str], columns: Mapping[str, str | None]) -> list[str]:
    """The columns of a table without paths of images that are a pixel each; none if there are few.

    They are numbered behind the same word, or behind none, and have levels; 0 and 1 alone would be
    classes, a column each.
    """
    if columns.get("image") not in (None, PIXELS) or any(
        ending_of(cell) in IMAGE_ENDINGS for cell in cells.values()
    ):
        return []
    words: dict[str, list[str]] = {}
    for name, cell in cells.items():
        if (found := _NUMBERED.fullmatch(name)) and cell.isdecimal() and int(cell) <= _TOP:
            words.setdefault(found[1], []).append(name)
    most = max(words.values(), key=len, default=[])
    return most if len(most) >= _LEAST and any(int(cells[name]) > 1 for name in most) else []


def _is_pixels(name: str, row: Row) -> bool:
    cell = row.cells[name]
    return (
        name.lower() in _CALLED and cell.count(" ") >= _LEAST - 1 and bool(_LEVELS.fullmatch(cell))
    )


def _hold(
    path: str, line: int, text: str, shape: tuple[int, ...], modified_ns: int
) -> EmbeddedImage | Unusable | Items | None:
    """The image, which is kept with its row: a table of text cannot be read in parts."""
    if not text.strip():
        return None
    if not _LEVELS.fullmatch(text):
        return Unusable(_NO_LEVELS, is_images=True)
    levels = np.array(text.split(), np.int64)
    if not shape:
        return Items(levels.tolist(), "int")
    if len(levels) != math.prod(shape):
        misfit = explain_misfit(f"{len(levels):,} values", shape)
        return Unusable(misfit, is_images=True, size_bytes=len(levels))
    if levels.max() > _TOP:
        return Unusable(_TOO_LARGE.format(levels.max()), is_images=True)
    packed = base64.b85encode(zlib.compress(levels.astype(_LEVEL).tobytes())).decode()
    inside = f"{'x'.join(map(str, shape))} {packed}"
    size_bytes = len(make_header(_LEVEL, shape)) + len(levels)
    return EmbeddedImage(Location(path, PIXELS, line, 1, inside), size_bytes, modified_ns)


def read_pixels(ref: ImageRef, most_bytes: int) -> bytes:
    """The `.npy` file of an image that a table writes out; see `source_kinds.Reader`."""
    assert ref.location is not None
    sides, packed = ref.location.inside.split(" ")
    header = make_header(_LEVEL, tuple(map(int, sides.split("x"))))
    return (header + zlib.decompress(base64.b85decode(packed)))[:most_bytes]
