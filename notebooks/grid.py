"""Pictures side by side, with titles."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

_CELL_INCHES, _LINE_INCHES = 1.6, 0.2


def draw_grid(pictures: Sequence[Any], titles: Sequence[str], columns: int = 6) -> Figure:
    """Draws pictures row by row, each in its own shape.

    Args:
      pictures: uint8 [height, width], gray, or [height, width, 3], or Pillow's images of these.
      titles: one for each, above it; they may have several lines.
      columns: pictures in a row.

    Returns:
      The figure, which a cell shows if it ends with it.

    Raises:
      ValueError: if there is no picture, or not a title for each.
    """
    if not 0 < len(pictures) == len(titles):
        raise ValueError(
            f"draw_grid needs pictures and a title for each, got {len(pictures)} pictures and "
            f"{len(titles)} titles; give as many titles as pictures."
        )
    rows = -(-len(pictures) // columns)
    pixels = [np.asarray(picture) for picture in pictures]
    tallest = max(each.shape[0] / each.shape[1] for each in pixels)
    lines = max(title.count("\n") + 1 for title in titles)
    row_inches = tallest * _CELL_INCHES + lines * _LINE_INCHES
    figure = Figure(figsize=(columns * _CELL_INCHES, rows * row_inches), layout="constrained")
    cells = figure.subplots(rows, columns, squeeze=False).ravel()
    for cell in cells:
        cell.set_axis_off()
        cell.set_anchor("N")  # Wide pictures stand beside upright ones with their titles in a line.
    for cell, picture, title in zip(cells, pixels, titles, strict=False):
        cell.imshow(picture, cmap="gray", vmin=0, vmax=255)
        cell.set_title(title, fontsize=9, parse_math=False)
    return figure
