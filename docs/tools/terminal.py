"""From what programs write to a terminal to a picture of it."""

import itertools
import re

import pyte
from pyte.screens import Char
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 84
LINES = 200  # enough for all that is shown, so that nothing scrolls away
_NAMED = {"default": "", "brown": "yellow"}  # pyte's names of colours, as rich calls them


def read_screen(written: bytes) -> list[Text]:
    """The lines that stand on the screen at the end, with colours, up to the last that has text.

    Args:
      written: the program's bytes, with the control codes by which it draws progress bars.
    """
    screen = pyte.Screen(COLUMNS, LINES)
    pyte.ByteStream(screen).feed(written)
    lines = [_read_line(screen, row) for row in range(LINES)]
    while lines and not lines[-1].plain:
        lines.pop()
    return lines


def _read_line(screen: pyte.Screen, row: int) -> Text:
    shown = [screen.buffer[row][column] for column in range(COLUMNS)]
    parts = itertools.groupby(shown, key=_name_style)
    line = Text.assemble(*(("".join(each.data for each in part), style) for style, part in parts))
    line.rstrip()
    return line


def _name_style(shown: Char) -> str:
    """The style of one character on the screen, in rich's words."""
    colour = _NAMED.get(shown.fg, shown.fg.replace("bright", "bright_"))
    return f"{'bold ' * shown.bold}{colour}".strip()


def draw(lines: list[Text], title: str) -> str:
    """An SVG of a window that shows the lines, with the fonts of whoever looks at it."""
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, highlight=False)
        for line in lines:
            console.print(line, soft_wrap=True)
    drawn = console.export_svg(title=title, theme=MONOKAI, unique_id="terminal")
    # Rich names a font on another server, which a code host would not fetch.
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
