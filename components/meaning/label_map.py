"""The colours of masks' classes, where a file beside the masks names them.

CVAT writes `labelmap.txt` (`# label:color_rgb:parts:actions`), CamVid and its like `class_dict.csv`
(`name,r,g,b`) and `label_colors.txt` (`r g b name`).
"""

import csv
from collections.abc import Iterable

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import show
from image_pipeline.components.names import decode_name, read_windows

_NAMES = ("labelmap.txt", "class_dict.csv", "label_colors.txt", "label_colours.txt")
_MOST_BYTES = 2**20
_MOST_CLASSES = 255
_WAY_OUT = "correct it, move the file elsewhere, or say what masks show by ingest.masks"


def find_label_map(images: str, paths: Iterable[str]) -> tuple[str, dict[str, str]] | None:
    """The file that names classes' colours, and these as `#rrggbb`, in its order.

    Args:
      images: the folder of images and masks.
      paths: of all files in it.

    Returns:
      None if there is no such file, or none that has any class and colour.

    Raises:
      UserError: if a line of it is none, or classes or colours are there twice; it names the line.
    """
    named = [path for path in paths if path.lower().rpartition("/")[2] in _NAMES]
    for path in sorted(named, key=lambda path: (path.count("/"), path)):
        try:
            data = files.read_file(files.join(images, path), 0, _MOST_BYTES)
        except OSError:
            continue
        text = data.decode("utf-8-sig", errors="surrogateescape")
        lines = [
            (number, line, _read_line(line))
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.startswith("#")
        ]
        if any(pair for _, _, pair in lines):
            return path, _take_lines(path, lines)
    return None


def _take_lines(path: str, lines: list[tuple[int, str, tuple[str, str] | None]]) -> dict[str, str]:
    """The colours of the classes that lines name, by their numbers; raises UserError."""
    found: dict[str, str] = {}
    for number, line, pair in lines:
        is_header = number == 1 and not any(each.isdigit() for each in line)
        if pair is None and is_header:
            continue
        if pair is None:
            raise UserError(
                f"{path}:{number}: {show(line.strip())} names no class and its colour, red, green "
                f"and blue from 0 to 255; {_WAY_OUT}."
            )
        name, color = pair
        if name in found:
            raise UserError(f"{path}:{number}: {name!r} is named twice; {_WAY_OUT}.")
        if other := next((each for each in found if found[each] == color), None):
            raise UserError(
                f"{path}:{number}: {name!r} has the colour {color}, as {other!r} has, so masks do "
                f"not tell them apart; {_WAY_OUT}."
            )
        found[name] = color
    if len(found) > _MOST_CLASSES:
        raise UserError(
            f"{path} names {len(found):,} classes, where there may be {_MOST_CLASSES}; {_WAY_OUT}."
        )
    return found


def _read_line(line: str) -> tuple[str, str] | None:
    """The class of a line and its colour; None where it has none."""
    if ":" in line:
        name, color, *_ = line.split(":")
        return _pair(name, color.split(","))
    if "," in line:
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        return _pair(cells[0], cells[1:4])
    parts = line.split()
    return _pair(" ".join(parts[3:]), parts[:3])


def _pair(name: str, levels: list[str]) -> tuple[str, str] | None:
    levels = [level.strip() for level in levels]
    are_levels = len(levels) == 3 and all(level.isdigit() and int(level) < 256 for level in levels)
    if not name.strip() or not are_levels:
        return None
    return decode_name(read_windows(name.strip())), "#" + "".join(
        f"{int(level):02x}" for level in levels
    )
