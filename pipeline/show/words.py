"""Numbers as people read them."""

import collections
import math
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape

from image_pipeline.components.evaluation.metrics import Estimate, is_share
from image_pipeline.components.names import printable_text

_THOUSAND = 1000


def format_value(value: float | None, unit: str = "") -> str:
    """A number with three to four digits and its unit: "", "px" or "B"; a dash for None."""
    if value is None or not math.isfinite(value):
        return "—" if value is None else str(value)
    if unit == "B":
        return format_bytes(value)
    number = f"{value:,.0f}" if abs(value) >= _THOUSAND or value == int(value) else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def format_bytes(size: float) -> str:
    """A size in decimal units: 999 B, 1.5 kB, 12.0 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < _THOUSAND:
            return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= _THOUSAND
    return f"{size:,.1f} TB"


def format_count(count: int, unit: str) -> str:
    """A number and the (singular) unit counted: 1 epoch, 2 epochs, 1,200 classes."""
    ending = "es" if unit.endswith("s") else "s"
    return f"{count:,} {unit}{'' if count == 1 else ending}"


def count_names(names: Iterable[str]) -> str:
    """Names and how often each occurs, as in "cat × 2, dog"."""
    counts = collections.Counter(names)
    return ", ".join(name if n == 1 else f"{name} × {n:,}" for name, n in counts.items())


def format_share(share: float) -> str:
    """A share in percent, with one decimal."""
    return f"{share * 100:.1f} %"


def format_figure(value: float | None, measure: str) -> str:
    """What a model is judged by: a share in percent, an error with five digits."""
    if value is not None and is_share(measure):
        return format_share(value)
    return format_fact(value)


def format_fact(value: Any) -> str:
    """A value of any kind in a table of differences."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.5g}"
    return str(value)


def make_breakable(text: str) -> Markup:
    """A text that may be wrapped after underscores and slashes, for file names."""
    escaped = str(escape(printable_text(text)))
    for mark in "_/":
        escaped = escaped.replace(mark, f"{mark}<wbr>")
    return Markup(escaped)


def format_range(least: str, most: str) -> str:
    """A range of values, or the one value if both are equal."""
    return least if least == most else f"{least} to {most}"


def format_change(value: float) -> str:
    """A difference, with its sign."""
    return f"{value:+,}" if isinstance(value, int) else f"{value:+,.4g}"


def format_seconds(seconds: float) -> str:
    """A time: 12.3 s, 4 min 5 s, 1 h 2 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_measured(value: float, interval: tuple[float, float] | None) -> str:
    """A figure, with its interval if there is one: "0.439 (0.415 to 0.464)"."""
    if interval is None:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # never 1e+04
    return f"{value:,.3f} ({interval[0]:,.3f} to {interval[1]:,.3f})"


def format_estimate(estimate: Estimate) -> str:
    """A figure with its interval; a dash for none."""
    if estimate.value is None:
        return "—"
    return format_measured(estimate.value, estimate.interval)
