"""Images that a table of text writes out: their pixels as numbers in a cell, or a column for each.

FER2013 has cells of `70 80 82 …`, MNIST as CSV has the columns `pixel0` to `pixel783`.
"""

import base64
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.images.npy import make_header
from image_pipeline.components.sources.column_types import Items
from image_pipeline.components.sources.file_names import ending_of
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
_MISFIT = "it has {:,} values, but ingest.pixel_shape={} are {:,} values"
_TOO_LARGE = "its level {} is none of 0 to 255"
_LEVEL, _TOP = np.dtype(np.uint8), 255


def hold_pixels(path: str, rows: Iterable[Row], shape: tuple[int, ...]) -> Iterator[Row]:
    """Rows whose pixels are images; without a shape, lists of numbers.

    Args:
      path: of the table.
      rows: of it, cells of text.
      shape: of the images; nothing if it is not stated.
    """
    modified_ns, joined = files.stat_file(path)[1], None
    for row in rows:
        cells = row.cells
        if joined is None and not row.problem:
            joined = _find_columns(cells)
            if joined:
                told = f"{os.path.basename(path)}: the columns from {joined[0]!r} to {joined[-1]!r}"
                understood(f"{told} are taken as the pixels of an image, a row each")
        if joined and not row.problem:
            text = " ".join(cells[name] for name in joined)
            cells = {n: cell for n, cell in cells.items() if n not in joined} | {PIXELS: text}
        for name in cells if not row.problem else ():
            if _is_pixels(name, cells[name]):
                levels = np.array(cells[name].split(), np.int64)
                cells = cells | {name: _hold(path, row.line, levels, shape, modified_ns)}
        yield row if cells is row.cells else Row(row.line, cells)


def _find_columns(cells: Mapping[str, str]) -> list[str]:
    """The columns of a table without paths of images that are a pixel each; none if there are few.

    They are numbered behind the same word, or behind none, and have levels.
    """
    if any(ending_of(cell) in IMAGE_ENDINGS for cell in cells.values()):
        return []
    words: dict[str, list[str]] = {}
    for name, cell in cells.items():
        if (found := _NUMBERED.fullmatch(name)) and cell.isdecimal() and int(cell) <= _TOP:
            words.setdefault(found[1], []).append(name)
    most = max(words.values(), key=len, default=[])
    return most if len(most) >= _LEAST else []


def _is_pixels(name: str, cell: Any) -> bool:
    is_called = name.lower() in _CALLED and isinstance(cell, str)
    return is_called and cell.count(" ") >= _LEAST - 1 and bool(_LEVELS.fullmatch(cell))


def _hold(
    path: str, line: int, levels: np.ndarray, shape: tuple[int, ...], modified_ns: int
) -> EmbeddedImage | Unusable | Items:
    """The image, which is kept with its row: a table of text cannot be read in parts."""
    if not shape:
        return Items(levels.tolist(), "int")
    if len(levels) != math.prod(shape):
        misfit = _MISFIT.format(len(levels), list(shape), math.prod(shape))
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
