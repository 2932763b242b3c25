"""What differs between two data sets, as `diff` prints it and the page of a report shows it."""

from typing import Any

from rich.console import Console

from image_pipeline.components.dataset.changes import Change, Changes
from image_pipeline.components.messages import show
from image_pipeline.show.terminal import Table, print_line, print_rows, print_table
from image_pipeline.show.words import format_count

_MOST_FILES = 100


def print_changes(found: Changes, console: Console) -> None:
    """Prints how many records differ in what, the options that do, and the files."""
    before, now = found.records
    counts = [(kind, f"{count:,}") for kind, count in found.counts.items() if count]
    print_rows([("records", f"{before:,} before, {now:,} now"), *counts], console)
    for name, (old, new) in found.options.items():
        print_line(f"ingest.{name} was {show(old)}, now {show(new)}", console)
    if not found.files:
        print_line("Every file is as it was.", console)
        return
    console.print()
    rows = [
        (each.name, ", ".join(each.kinds) or "not a record", say_values(each))
        for each in found.files[:_MOST_FILES]
    ]
    print_table(Table((), rows, texts=(1, 2)), console)
    if len(found.files) > _MOST_FILES:
        more = format_count(len(found.files) - _MOST_FILES, "more file")
        print_line(f"… and {more}; --json lists all.", console)


def say_values(change: Change) -> str:
    """What differs, each value before and now."""
    parts = [f"was {change.was}"] if change.path and change.was not in (None, change.path) else []
    for name, (old, new) in change.values.items():
        if name == "content" or (name == "became" and {old, new} == {None, "record"}):
            continue  # Its kind says so.
        if "became" in change.values and None in (old, new):
            parts.append(f"{name} {_say(new if old is None else old)}")
        else:
            parts.append(f"{name} {_say(old)} -> {_say(new)}")
    return "; ".join(parts)


def _say(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else show(value)
