"""The plots of RESULTS.md, as SVG whose text is text."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from benchmarks.bench.figures import TASKS, Raw, cpu_per_1000, images_per_s
from benchmarks.bench.fits import fit_line

_OURS, _OTHER, _LIMIT = "#1f6feb", "#9aa4b2", "#3a3f47"
# The same figures give the same bytes: ids are hashed with a fixed salt, and no date is kept.
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "benchmarks", "font.size": 9}


def draw_read(results: Raw) -> str:
    """A panel a task: CPU seconds for 1,000 images, the least on top."""
    tasks = {
        task: {name: reader["rounds"] for name, reader in readers.items() if reader["rounds"]}
        for task, readers in results["tasks"].items()
    }
    figure, panels = _make_figure(len(tasks), max(map(len, tasks.values())))
    for axes, (task, readers) in zip(panels, tasks.items(), strict=True):
        values = {name: cpu_per_1000(rounds) for name, rounds in readers.items()}
        _draw_bars(axes, values, TASKS[task], "CPU s / 1,000 images")
    return _as_svg(figure)


def draw_write(results: Raw) -> str:
    """CPU seconds for 1,000 images, and images a second."""
    figure, panels = _make_figure(2, len(results["writers"]))
    for axes, value, title in (
        (panels[0], cpu_per_1000, "CPU s / 1,000 images"),
        (panels[1], images_per_s, "images / s"),
    ):
        values = {name: value(rounds) for name, rounds in results["writers"].items()}
        _draw_bars(axes, values, title, "", best=min if value is cpu_per_1000 else max)
    return _as_svg(figure)


def draw_growth(results: Raw) -> str:
    """Wall seconds at every size, and the fitted lines."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for (stage, rounds), color in zip(
        results["stages"].items(), (_OURS, "#d4722a", "#2f8f5b"), strict=True
    ):
        images = np.array([entry["images"] for entry in rounds])
        line = fit_line(rounds, "wall_s")
        span = np.geomspace(images.min(), images.max(), 50)
        axes.plot(span, line.fixed + line.slope * span, color=color)
        axes.plot(images, [entry["wall_s"] for entry in rounds], "o", color=color, label=stage)
    axes.set(xscale="log", yscale="log", xlabel="images", ylabel="seconds")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return _as_svg(figure)


def _make_figure(panels: int, bars: int) -> tuple[Figure, list[Axes]]:
    rows = -(-panels // 2)
    figure = Figure(figsize=(9, rows * (0.8 + 0.2 * bars)), layout="constrained")
    axes = list(figure.subplots(rows, 2, squeeze=False).flat)
    for empty in axes[panels:]:
        empty.set_visible(False)
    return figure, axes[:panels]


def _draw_bars(
    axes: Axes, values: dict[str, float], title: str, unit: str, best: Callable[..., Any] = min
) -> None:
    names = sorted(values, key=lambda name: values[name], reverse=best is min)
    colors = [{"ours": _OURS, "bare loop": _LIMIT}.get(name, _OTHER) for name in names]
    bars = axes.barh(names, [values[name] for name in names], color=colors)
    axes.bar_label(bars, [f"{values[name]:.3g}" for name in names], padding=3)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(unit)
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)


def _as_svg(figure: Figure) -> str:
    text = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    # What a text editor would strip.
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


PLOTS: dict[str, Callable[[Any], str]] = {
    "read": draw_read,
    "write": draw_write,
    "growth": draw_growth,
}
