"""Named lines: how results are shown to a person."""

import os
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape


def print_rows(rows: Sequence[tuple[str, str]], console: Console, style: str = "") -> None:
    """Prints each name and its text on a line; paths are never cut, whatever the width."""
    for name, text in rows:
        # Markup is escaped: names of folders and classes may hold brackets.
        line = f"[bold]{escape(name):<24}[/bold] {escape(text)}"
        console.print(line, style=style, soft_wrap=True)


def printable(path: str) -> str:
    """A path that any terminal can show: bytes that are not UTF-8 become backslash escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")
