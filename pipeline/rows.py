"""Named lines: how results are shown to a person, and how their values are written."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

_MOST_NAMED = 3  # classes in one line


def print_rows(rows: Sequence[tuple[str, str]], console: Console, style: str = "") -> None:
    """Prints each name and its text on a line; paths are never cut, whatever the width."""
    for name, text in rows:
        # Markup is escaped: names of folders and classes may hold brackets.
        line = f"[bold]{escape(name):<24}[/bold] {escape(text)}"
        console.print(line, style=style, soft_wrap=True)


def printable(path: str) -> str:
    """A path that any terminal can show: bytes that are not UTF-8 become backslash escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def format_numbers(value: Any) -> str:
    """A statistic in a few words: a number, up to eight numbers, or how many there are."""
    if not isinstance(value, list):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"
    if len(value) > 8 or any(isinstance(each, list) for each in value):
        return f"{len(value)} values"
    return ", ".join(f"{each:,.4f}" for each in value)


def format_classes(classes: Sequence[Mapping[str, Any]]) -> str:
    """How many classes, and the ends of the list, which is in the order of falling counts.

    Args:
      classes: as `analysis.json` has them; at least one.
    """
    most, fewest = classes[0], classes[-1]
    ends = f"most {most['name']} ({most['records']:,}), fewest {fewest['name']}"
    return f"{len(classes):,}, {ends} ({fewest['records']:,})"


def format_unknown_classes(unknown: Mapping[str, Mapping[str, int]]) -> str:
    """Records of classes that no analysed record has: how many of each split, and what of them.

    Args:
      unknown: as `analysis.json` has them: split to class name to records; not empty.
    """
    splits = [
        f"{sum(counts.values()):,} of {split} ({', '.join(map(repr, list(counts)[:_MOST_NAMED]))}"
        f"{', …' if len(counts) > _MOST_NAMED else ''})"
        for split, counts in unknown.items()
    ]
    return f"{'; '.join(splits)}: left out of loss, metrics and evaluation"


def format_constant_channels(channels: Sequence[int]) -> str:
    """The channels of one value only, and what was done about them."""
    return f"{', '.join(map(str, channels))}: one value everywhere, so divided by 1 (std 1)"
