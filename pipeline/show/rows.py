"""Named lines: how results are printed, and how their values are formatted."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from image_pipeline.components.messages import show
from image_pipeline.components.names import printable_text
from image_pipeline.show.words import format_count

_MOST_NAMED = 3  # classes in one line


def print_rows(rows: Sequence[tuple[str, str]], console: Console, style: str = "") -> None:
    """Prints each name and its text on a line; paths are never cut, whatever the width."""
    for name, text in rows:
        # Markup is escaped: names of folders and classes may hold brackets.
        name, text = escape(printable_text(name)), escape(printable_text(text))
        line = f"[bold]{name:<24}[/bold] {text}"
        console.print(line, style=style, soft_wrap=True)


def format_numbers(value: Any) -> str:
    """A statistic in a few words: a number, up to eight numbers, or how many there are."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4f}"
    if not isinstance(value, list):  # null stands for NaN, and text may be anything.
        return show(value)
    if len(value) > 8 or any(isinstance(each, list) for each in value):
        return f"{len(value)} values"
    return ", ".join(
        f"{each:,.4f}" if isinstance(each, int | float) else show(each) for each in value
    )


def format_classes(classes: Sequence[Mapping[str, Any]]) -> str:
    """The number of classes, and those with the most and the fewest records, if counted.

    Args:
      classes: as in `analysis.json`; at least one.
    """
    if any(row["records"] is None for row in classes):
        return f"{len(classes):,}"
    most = max(classes, key=lambda row: row["records"])
    fewest = min(reversed(classes), key=lambda row: row["records"])
    ends = f"most {most['name']} ({most['records']:,}), fewest {fewest['name']}"
    return f"{len(classes):,}, {ends} ({fewest['records']:,})"


def format_mask_classes(names: Sequence[str], pixels: Sequence[int]) -> str:
    """The number of classes, and those with the most and the fewest pixels, as shares.

    Args:
      names: the masks' classes; at least one.
      pixels: how many each of them has.
    """
    total = max(1, sum(pixels))
    rows = list(zip(pixels, names, strict=True))
    most, fewest = max(rows, key=lambda row: row[0]), min(reversed(rows), key=lambda row: row[0])
    ends = [f"{name} ({count / total:.2%} of pixels)" for count, name in (most, fewest)]
    return f"{len(names):,}, most {ends[0]}, fewest {ends[1]}"


def format_unknown_classes(unknown: Mapping[str, Mapping[str, int]], are_tags: bool = False) -> str:
    """How many records in each split have a class that no analysed record has; or how many tags.

    Args:
      unknown: as in `analysis.json`: split to name to records; not empty.
      are_tags: whether the names are tags, of which a record may have several.
    """
    splits = [
        f"{sum(counts.values()):,} of {split} ({', '.join(map(repr, list(counts)[:_MOST_NAMED]))}"
        f"{', …' if len(counts) > _MOST_NAMED else ''})"
        for split, counts in unknown.items()
    ]
    rule = "fed as 0 everywhere" if are_tags else "left out of loss, metrics and evaluation"
    return f"{'; '.join(splits)}: {rule}"


def format_constant_channels(channels: Sequence[int]) -> str:
    """The channels with a single value, and what was done about them."""
    return f"{', '.join(map(str, channels))}: one value everywhere, so divided by 1 (std 1)"


def print_profile(profile: Mapping[str, Any], console: Console) -> None:
    """Prints where the trace is, and its slowest operations.

    Args:
      profile: a `components.training.profile.Profile` as a dict.
      console: where to print.
    """
    steps = format_count(profile["steps"], "step")
    size = f"{profile['size_bytes'] / 1e6:,.1f} MB"
    console.print(
        f"\nThe trace of {steps} ({size}) is in {escape(profile['folder'])}: "
        "tensorboard --logdir shows it, with the plugin tensorboard-plugin-profile.",
        soft_wrap=True,
    )
    console.print("[bold]slowest operations[/bold] (own time, all threads together)")
    for op in profile["slowest"]:
        line = f"{op['self_ms']:9,.1f} ms {op['calls']:6,} x  {op['kind']:<28} {op['name']}"
        console.print(escape(line), soft_wrap=True)
