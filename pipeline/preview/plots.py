"""Pictures of a data set: its classes, and each image on its way to the model."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from image_pipeline.preview.panels import Panel, box_size, make_panels
from image_pipeline.preview.samples import RecordViews

SHEET_DPI = 100
_EVAL_COLOR, _TRAIN_COLOR = "#d9822b", "#3b6ea5"
# Lengths of a sheet, in its pixels.
_MARGIN_PX, _GAP_PX, _LINE_PX, _MOST_LABEL_PX = 16, 8, 15, 180
_TEXT_POINTS, _HEADING_POINTS = 8, 10


def plot_views(records: Sequence[RecordViews], lines: Sequence[str] = ()) -> Figure:
    """Draws a row for each record: stored, eval, training's epochs, and the model's input.

    Args:
      records: as `read_views` makes them, all with the same views.
      lines: lines of text above, the first one as the heading.

    Returns:
      The figure. Saved with `SHEET_DPI`, it shows the pixels of `make_panels`, one for one.
    """
    return _Sheet(records, lines).draw()


class _Sheet:
    """Where everything is on a sheet, in pixels from its top left corner."""

    def __init__(self, records: Sequence[RecordViews], lines: Sequence[str]):
        self.rows = [make_panels(each) for each in records]
        self.labels = [_shorten(each.label, _MOST_LABEL_PX, _HEADING_POINTS) for each in records]
        self.box_height, self.box_width = box_size(records[0].eval.shape)
        captions = max(len(panel.captions) for row in self.rows for panel in row)
        self.row_height = self.box_height + captions * _LINE_PX + _GAP_PX
        widest = max(_text_width(label, _HEADING_POINTS) for label in self.labels)
        self.left = _MARGIN_PX + widest + _GAP_PX
        columns = len(self.rows[0])
        self.width = self.left + columns * (self.box_width + _GAP_PX) - _GAP_PX + _MARGIN_PX
        self.lines = [part for line in lines for part in _wrap(line, self.width - 2 * _MARGIN_PX)]
        self.top = _MARGIN_PX + _LINE_PX * (len(self.lines) + 1) + _GAP_PX * bool(self.lines)
        self.height = self.top + len(self.rows) * self.row_height - _GAP_PX + _MARGIN_PX

    def draw(self) -> Figure:
        """The figure with all rows."""
        # The canvas rounds down: 590.9999 pixels would become 590.
        width, height = ((length + 0.001) / SHEET_DPI for length in (self.width, self.height))
        self.figure = Figure(figsize=(width, height), dpi=SHEET_DPI, facecolor="white")
        for number, line in enumerate(self.lines):
            weight = "normal" if number else "bold"
            self._write(line, _MARGIN_PX, _MARGIN_PX + number * _LINE_PX, fontweight=weight)
        for number, (label, row) in enumerate(zip(self.labels, self.rows, strict=True)):
            top = self.top + number * self.row_height
            style = {"ha": "right", "va": "center", "fontsize": _HEADING_POINTS}
            self._write(label, self.left - _GAP_PX, top + self.box_height // 2, **style)
            for column, panel in enumerate(row):
                left = self.left + column * (self.box_width + _GAP_PX)
                if number == 0:
                    self._write(panel.title, left, self.top - _LINE_PX - 2)
                self._draw_panel(panel, left, top)
        return self.figure

    def _draw_panel(self, panel: Panel, left: int, top: int) -> None:
        """Draws a picture centred in its box, with the captions below the box."""
        height, width = panel.pixels.shape[:2]
        x, y = left + (self.box_width - width) // 2, top + (self.box_height - height) // 2
        bottom = self.height - y - height
        bounds = (x / self.width, bottom / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(bounds)
        axes.imshow(panel.pixels, interpolation="nearest", aspect="auto")
        axes.set_axis_off()
        for number, caption in enumerate(panel.captions):
            y = top + self.box_height + 2 + number * _LINE_PX
            self._write(_shorten(caption, self.box_width), left, y, color="#666666")

    def _write(self, text: str, x: int, y: int, **style: Any) -> None:
        """Writes text at a place; dollars, as in class names, do not begin a formula."""
        usual: dict[str, Any] = {"ha": "left", "va": "top", "fontsize": _TEXT_POINTS}
        self.figure.text(
            x / self.width, 1 - y / self.height, text, parse_math=False, **usual | style
        )


def plot_classes(counts: pd.DataFrame) -> Figure:
    """Draws how many records each class has in each split, one bar per class.

    Args:
      counts: records, a row for each class and a column for each split.

    Returns:
      The figure.
    """
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
