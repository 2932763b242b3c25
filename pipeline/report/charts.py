"""What charts show, and charts as inline SVG: shapes only, the page's style has the colours."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape

from image_pipeline.components.evaluation.facts import Evaluation
from image_pipeline.show.words import format_count, format_value

BINS = 32
# Lengths in the units of the view box, which are pixels at the usual width of a card.
_WIDTH, _HEIGHT, _TEXT = 320, 110, 18
# Space left of a curve, for its least and greatest value.
_GUTTER = 52
_COUNTED_IN = 64
_UNITS = {"B": "bytes"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counted values.

    Attributes:
      min, median, max: of the values.
      edges: edges of the steps, one more than there are steps.
      counts: number of values in each step; one step if all are equal.
      logarithmic: whether each step is a ratio.
    """

    count: int
    min: float
    median: float
    max: float
    edges: list[float]
    counts: list[int]
    logarithmic: bool


def make_histogram(
    values: np.ndarray, bins: int = BINS, logarithmic: bool = False
) -> Histogram | None:
    """Counts values; None if there are none.

    Args:
      values: numbers [n].
      bins: number of steps between the least and the greatest value.
      logarithmic: whether each step is a ratio; then all values must be over 0.
    """
    if not len(values):
        return None
    least, greatest = float(values.min()), float(values.max())
    if least == greatest:
        edges = np.array([least, greatest])
        counts = np.array([len(values)])
    else:
        space = np.geomspace if logarithmic else np.linspace
        edges = space(least, greatest, bins + 1)
        edges[0], edges[-1] = least, greatest  # Rounded, they could leave out the extremes.
        counts = np.histogram(values, edges)[0]
    return Histogram(
        count=len(values),
        min=least,
        median=float(np.median(values)),
        max=greatest,
        edges=edges.tolist(),
        counts=counts.tolist(),
        logarithmic=logarithmic,
    )


@dataclasses.dataclass(frozen=True)
class Channel:
    """The values of a channel over all measured images.

    Attributes:
      counts: how often each value from 0 to 255 occurs.
    """

    name: str
    mean: float
    std: float
    counts: list[int]


def draw_histogram(
    histogram: Histogram, title: str, unit: str = "", axis: str = "", counted: str = "images"
) -> Markup:
    """Draws bars, with the least, the middle and the greatest value under them.

    Args:
      title: the chart's description for screen readers.
      unit: unit of the values: "", "px" or "B".
      axis: what the values are, written under them.
      counted: what a bar counts.
    """
    counts = histogram.counts
    if len(counts) == 1:
        return Markup("<p>all {}</p>").format(format_value(histogram.min, unit))
    step, highest = _WIDTH / len(counts), max(counts)
    bars = [
        _rect(number * step, count / highest * _HEIGHT, step, f"{count:,} {counted}")
        for number, count in enumerate(counts)
        if count
    ]
    values = (histogram.min, histogram.median, histogram.max)
    least, middle, most = (format_value(value, unit) for value in values)
    ticks = _label(0, "start", least) + _label(_WIDTH / 2, "middle", f"median {middle}")
    ticks += _label(_WIDTH, "end", most)
    described = f"{title}: {least} to {most}, median {middle}"
    across = axis or title
    across = f"{across[:1].lower()}{across[1:]}{', ' if unit else ''}{_UNITS.get(unit, unit)}"
    named = _name_axes(across, f"up to {highest:,} {counted} in a step")
    return _svg(Markup().join(bars) + ticks + named, described)


def draw_channels(channels: Sequence[Channel]) -> Markup:
    """Draws how often each value from 0 to 255 occurs: a line per channel, 4 values per step."""
    step = 256 // _COUNTED_IN
    sums = [
        [sum(channel.counts[start : start + step]) for start in range(0, 256, step)]
        for channel in channels
    ]
    highest = max((max(own) for own in sums), default=0) or 1
    lines = [
        _line([count / highest for count in own], f"channel {channel.name}")
        for channel, own in zip(channels, sums, strict=True)
    ]
    ticks = _label(0, "start", "0") + _label(_WIDTH / 2, "middle", "128")
    ticks += _label(_WIDTH, "end", "255")
    total = sum(map(sum, sums)) / max(len(sums), 1) or 1
    named = _name_axes("value of a pixel", f"up to {highest / total:.1%} of the pixels in a step")
    means = ", ".join(f"{channel.name} mean {channel.mean:.1f}" for channel in channels)
    return _svg(Markup().join(lines) + ticks + named, f"Pixel values by channel: {means}")


def draw_curves(
    name: str, train: Sequence[float | None] | None, held: Sequence[float | None] | None
) -> Markup:
    """Draws a metric after every epoch, from the least value to the greatest.

    Args:
      train: its values in training, or None; a value is None where it was not a number.
      held: its values on the eval split, or None.
    """
    series = [("train", train), ("eval", held)]
    values = [value for _, own in series if own for value in own if value is not None]
    if not values:
        return Markup("<p>No value of {} is a number.</p>").format(name)
    least, most = min(values), max(values)
    span = (most - least) or 1
    lines = [
        _line([None if value is None else (value - least) / span for value in own], split, _GUTTER)
        for split, own in series
        if own
    ]
    epochs = max(len(own) for _, own in series if own)
    ticks = _label(_GUTTER, "start", "1") + _label(_WIDTH, "end", f"{epochs:,}")
    bounds = _label(0, "start", format_value(most), 12)
    bounds += _label(0, "start", format_value(least), _HEIGHT - 4)
    over = format_count(epochs, "epoch")
    described = f"{name} over {over}, {format_value(least)} to {format_value(most)}"
    named = _name_axes("epoch", name)
    return _svg(Markup().join(lines) + ticks + bounds + named, described)


def draw_score(found: Evaluation) -> Markup:
    """Draws a model's score with its interval, from 0 on, and what it is held against."""
    value = found.score.value
    assert value is not None, "there is nothing to draw"
    low, high = found.score.interval or (value, value)
    known = {"always": found.constant.value} if found.constant else {}
    known |= {"bound": found.bound.threshold} if found.bound else {}
    most = 1.0 if found.metric.is_share else max([0.0, high, value, *known.values()])
    scale = _WIDTH / (most or 1)
    marks = [
        Markup('<path class="{}" d="M{:.1f} 14V46"/>').format(kind, min(fact, most) * scale)
        for kind, fact in known.items()
    ]
    bar = Markup('<rect class="interval" x="{:.1f}" y="25" width="{:.1f}" height="10" rx="5"/>')
    bar = bar.format(low * scale, max((high - low) * scale, 1))
    dot = Markup('<circle class="value" cx="{:.1f}" cy="30" r="6"/>').format(value * scale)
    line = Markup('<path class="base" d="M0 30H{}"/>').format(_WIDTH)
    ends = _label(0, "start", "0", 60) + _label(_WIDTH, "end", format_value(most), 60)
    box = Markup('<svg class="verdict" role="img" viewBox="0 0 {} 64" aria-label="{}">')
    described = f"{found.measure} {value:.3f}, {low:.3f} to {high:.3f}"
    content = line + bar + Markup().join(marks) + dot + ends
    return box.format(_WIDTH, described) + content + Markup("</svg>")


def _rect(left: float, height: float, step: float, title: str) -> Markup:
    height = max(height, 1)  # A single image among thousands must be visible.
    gap = min(1, step / 8)
    template = '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
    return Markup(template).format(left, _HEIGHT - height, step - gap, height, title)


def _name_axes(across: str, upwards: str) -> Markup:
    """What lies across is said under its values, what rises above the chart."""
    names = _label(_WIDTH / 2, "middle", across, _HEIGHT + 2 * _TEXT) + _label(
        0, "start", upwards, -6
    )
    return Markup('<g class="axis">{}</g>').format(names)


def _line(shares: Sequence[float | None], kind: str, left: float = 0) -> Markup:
    """A line through values from 0 to 1, to the right edge; a dot for one value. Skips None."""
    margin = 2  # Half a line's width extends beyond its points.
    places = [
        (
            left + number / max(len(shares) - 1, 1) * (_WIDTH - left),
            margin + (1 - share) * (_HEIGHT - 2 * margin),
        )
        for number, share in enumerate(shares)
        if share is not None
    ]
    if not places:
        return Markup()
    if len(places) == 1:
        return Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(kind, *places[0])
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return Markup('<polyline class="{}" points="{}"/>').format(kind, points)


def _label(x: float, anchor: str, text: str, y: float = _HEIGHT + _TEXT) -> Markup:
    template = '<text x="{:.0f}" y="{:.0f}" text-anchor="{}">{}</text>'
    return Markup(template).format(x, y, anchor, text)


def _svg(content: Markup, title: str) -> Markup:
    box = f"0 {-_TEXT} {_WIDTH} {_HEIGHT + 3 * _TEXT + 4}"
    base = Markup('<path class="base" d="M0 {0}H{1}"/>').format(_HEIGHT, _WIDTH)
    return (
        Markup('<svg role="img" viewBox="{}" aria-label="{}">').format(box, escape(title))
        + content
        + base
        + Markup("</svg>")
    )
