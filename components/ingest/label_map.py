"""The colours of masks' classes, where a file beside the masks names them.

CVAT writes `labelmap.txt` (`# label:color_rgb:parts:actions`), CamVid and its like `class_dict.csv`
(`name,r,g,b`) and `label_colors.txt` (`r g b name`).
"""

import csv
from collections.abc import Iterable

from image_pipeline.components import files

_NAMES = ("labelmap.txt", "class_dict.csv", "label_colors.txt", "label_colours.txt")
_MOST_BYTES = 2**20
_MOST_CLASSES = 255


def find_label_map(images: str, paths: Iterable[str]) -> tuple[str, dict[str, str]] | None:
    """The file that names classes' colours, and these as `#rrggbb`, in its order.

    Args:
      images: the folder of images and masks.
      paths: of all files in it.

    Returns:
      None if there is no such file, or it cannot be read as one.
    """
    named = [path for path in paths if path.lower().rpartition("/")[2] in _NAMES]
    for path in sorted(named, key=lambda path: (path.count("/"), path)):
        try:
            text = files.read_file(files.join(images, path), 0, _MOST_BYTES).decode("utf-8-sig")
        except (OSError, UnicodeError):
            continue
        found = dict(filter(None, map(_read_line, text.splitlines())))
        if 0 < len(found) <= _MOST_CLASSES and len({*found.values()}) == len(found):
            return path, found
    return None


def _read_line(line: str) -> tuple[str, str] | None:
    """The class of a line and its colour; None where it has none."""
    if ":" in line and not line.startswith("#"):
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
    return name.strip(), "#" + "".join(f"{int(level):02x}" for level in levels)
