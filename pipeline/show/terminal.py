"""The one way results are printed; and the terminal kept for people, not for libraries."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from rich.console import Console
from rich.markup import escape

from image_pipeline.components.errors import UserError
from image_pipeline.components.names import printable_text
from image_pipeline.show.words import format_count


class Table(NamedTuple):
    """A table, as the terminal prints it and the page shows it.

    Attributes:
      heads: over its columns.
      rows: the cells, as texts.
      texts: which columns are not numbers, beside the first; numbers stand to the right.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Sequence[int] = ()


def print_line(text: str, console: Console, style: str = "") -> None:
    """Prints a line, in which names cannot move the terminal; it is never cut."""
    console.print(printable_text(text), style=style, soft_wrap=True, markup=False)


def print_rows(rows: Sequence[tuple[str, str]], console: Console, style: str = "") -> None:
    """Prints each name and its text on a line; paths are never cut, whatever the width."""
    for name, text in rows:
        # Markup is escaped: names of folders and classes may hold brackets.
        name, text = escape(printable_text(name)), escape(printable_text(text))
        console.print(f"[bold]{name:<24}[/bold] {text}", style=style, soft_wrap=True)


def print_table(table: Table, console: Console) -> None:
    """Prints a table in columns without lines; nothing is cut."""
    lines = [[printable_text(cell) for cell in row] for row in (table.heads, *table.rows) if row]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = {0, *table.texts}
    for number, row in enumerate(lines):
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        is_head = bool(table.heads) and number == 0
        print_line("  ".join(cells).rstrip(), console, "bold" if is_head else "")


def print_profile(profile: Mapping[str, Any], console: Console) -> None:
    """Prints where the trace is, and its slowest operations."""
    steps, size = format_count(profile["steps"], "step"), f"{profile['size_bytes'] / 1e6:,.1f} MB"
    where = "tensorboard --logdir shows it, with the plugin tensorboard-plugin-profile."
    console.print()
    print_line(f"The trace of {steps} ({size}) is in {profile['folder']}: {where}", console)
    console.print("[bold]slowest operations[/bold] (own time, all threads together)")
    for op in profile["slowest"]:
        line = f"{op['self_ms']:9,.1f} ms {op['calls']:6,} x  {op['kind']:<28} {op['name']}"
        print_line(line, console)


@contextlib.contextmanager
def quiet_terminal(log_path: str) -> Iterator[Console]:
    """Sends everything written to stdout and stderr to a log file while the block runs.

    TensorFlow and other C++ libraries write to the file descriptors themselves, so those are
    redirected, not Python's streams only.

    Yields:
      A console that still reaches the terminal.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with _open_log(log_path) as log, os.fdopen(os.dup(1), "w") as terminal:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            yield Console(file=terminal, highlight=False)
        finally:
            for stream in (sys.stdout, sys.stderr):
                _flush(stream)
            for handler in logging.root.handlers:
                with contextlib.suppress(OSError):
                    handler.flush()
            for descriptor, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)


def _open_log(path: str) -> TextIO:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "a", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"Cannot write {path!r}: {error.strerror}; choose another --output."
        ) from error


def _flush(stream: TextIO) -> None:
    """Flushes; drops what a full disk does not take, which would be retried forever."""
    try:
        stream.flush()
    except OSError:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())
        stream.flush()
