"""Sheets of images on their way to the model, as figure or PNG; and bars of classes."""

import io
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from image_pipeline.preview.panels import box_size, make_panels
from image_pipeline.preview.samples import RecordViews
from image_pipeline.show.html import write_output

SHEET_DPI = 100
_EVAL_COLOR, _TRAIN_COLOR = "#d9822b", "#3b6ea5"
# Lengths of a sheet, in its pixels.
_MARGIN_PX, _GAP_PX, _LINE_PX, _MOST_LABEL_PX = 16, 8, 15, 180
_TEXT_POINTS, _HEADING_POINTS = 8, 10


def save_sheet(path: str, records: Sequence[RecordViews], lines: Sequence[str]) -> None:
    """Writes a contact sheet as PNG.

    Raises:
      UserError: if the file cannot be written.
    """
    file = io.BytesIO()
    with warnings.catch_warnings():
        # Warns of letters that the font lacks, which are drawn as boxes; a page has them all.
        warnings.simplefilter("ignore", UserWarning)
        plot_views(records, lines).savefig(file, format="png", dpi=SHEET_DPI)
    write_output(path, file.getvalue())


def plot_views(records: Sequence[RecordViews], lines: Sequence[str] = ()) -> Figure:
    """Draws a row for each record: stored, eval, training's epochs, and the model's input.

    Args:
      records: as `read_views` makes them, all with the same views.
      lines: lines of text above, the first one as the heading.

    Returns:
      The figure. Saved with `SHEET_DPI`, it shows the pixels of `make_panels`, one for one.
    """
    # All lengths are in pixels of the sheet, from its top left corner.
    rows = [make_panels(each) for each in records]
    labels = [_shorten(each.label, _MOST_LABEL_PX, _HEADING_POINTS) for each in records]
    box_height, box_width = box_size(records[0].eval.shape)
    captions = max(len(panel.captions) for row in rows for panel in row)
    row_height = box_height + captions * _LINE_PX + _GAP_PX
    first_left = _MARGIN_PX + max(_text_width(each, _HEADING_POINTS) for each in labels) + _GAP_PX
    width = first_left + len(rows[0]) * (box_width + _GAP_PX) - _GAP_PX + _MARGIN_PX
    wrapped = [part for line in lines for part in _wrap(line, width - 2 * _MARGIN_PX)]
    first_top = _MARGIN_PX + _LINE_PX * (len(wrapped) + 1) + _GAP_PX * bool(wrapped)
    height = first_top + len(rows) * row_height - _GAP_PX + _MARGIN_PX
    # The canvas rounds down: 590.9999 pixels would become 590.
    size = ((width + 0.001) / SHEET_DPI, (height + 0.001) / SHEET_DPI)
    figure = Figure(figsize=size, dpi=SHEET_DPI, facecolor="white")

    def write(text: str, x: int, y: int, **style: Any) -> None:
        usual: dict[str, Any] = {"ha": "left", "va": "top", "fontsize": _TEXT_POINTS}
        # Dollars, as in class names, do not begin a formula.
        figure.text(x / width, 1 - y / height, text, parse_math=False, **usual | style)

    for number, line in enumerate(wrapped):
        weight = "normal" if number else "bold"
        write(line, _MARGIN_PX, _MARGIN_PX + number * _LINE_PX, fontweight=weight)
    for column, panel in enumerate(rows[0]):
        left = first_left + column * (box_width + _GAP_PX)
        write(panel.title, left, first_top - _LINE_PX - 2)
    for number, (label, row) in enumerate(zip(labels, rows, strict=True)):
        top = first_top + number * row_height
        style = {"ha": "right", "va": "center", "fontsize": _HEADING_POINTS}
        write(label, first_left - _GAP_PX, top + box_height // 2, **style)
        for column, panel in enumerate(row):
            left = first_left + column * (box_width + _GAP_PX)
            # Centred in its box, below which the captions are.
            high, wide = panel.pixels.shape[:2]
            x, y = left + (box_width - wide) // 2, top + (box_height - high) // 2
            bounds = (x / width, (height - y - high) / height, wide / width, high / height)
            axes = figure.add_axes(bounds)
            axes.imshow(panel.pixels, interpolation="nearest", aspect="auto")
            axes.set_axis_off()
            for number, caption in enumerate(panel.captions):
                y = top + box_height + 2 + number * _LINE_PX
                write(_shorten(caption, box_width), left, y, color="#666666")
    return figure


def plot_classes(counts: pd.DataFrame) -> Figure:
    """Draws how many records each class has in each split, one bar per class."""
    figure = Figure(figsize=(min(14, 3 + 0.5 * len(counts)), 2.8), layout="constrained")
    axes = figure.subplots()
    colors = {"train": _TRAIN_COLOR, "eval": _EVAL_COLOR}
    total = np.zeros(len(counts))
    names = [str(name) for name in counts.index]
    for split in counts.columns:
        axes.bar(names, counts[split], bottom=total, label=split, color=colors.get(split))
        total += counts[split].to_numpy()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel("records")
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.tick_params(axis="x", rotation=90 if max(map(len, names), default=0) > 5 else 0)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _text_width(text: str, points: int = _TEXT_POINTS, weight: str = "normal") -> int:
    """A text's width on a sheet, in pixels, rounded up."""
    font = FontProperties(size=points, weight=weight)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return int(width * SHEET_DPI / 72) + 1


def _shorten(text: str, width_px: int, points: int = _TEXT_POINTS) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if _text_width(text, points) <= width_px:
        return text
    parts = (f"{text[:length]}…" for length in range(len(text) - 1, 0, -1))
    return next((part for part in parts if _text_width(part, points) <= width_px), "…")


def _wrap(text: str, width_px: int) -> list[str]:
    """Breaks a text into lines that fit, in bold type as well."""
    letter_px = _text_width(text, weight="bold") / max(len(text), 1)
    return textwrap.wrap(text, max(20, int(width_px / letter_px) - 2), subsequent_indent="    ")
