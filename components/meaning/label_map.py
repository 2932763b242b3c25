"""The colours or ids of masks' classes, where a file beside the masks names them.

CVAT writes `labelmap.txt` (`# label:color_rgb:parts:actions`), CamVid and its like `class_dict.csv`
(`name,r,g,b`) and `label_colors.txt` (`r g b name`); others a table of ids and names, or a name a
line in the order of ids.
"""

import csv
import dataclasses
import heapq
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from image_pipeline.components import files
from image_pipeline.components.dataset.record import IGNORED
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.mask_file import list_values
from image_pipeline.components.meaning.column_values import plain_name
from image_pipeline.components.meaning.counted_folders import sample_hash
from image_pipeline.components.messages import show
from image_pipeline.components.names import decode_name, read_windows

_COLORS = {
    *("labelmap.txt", "labelmap.csv", "class_dict.csv", "class_dict_seg.csv"),
    *("label_colors.txt", "label_colours.txt"),
}
_NAMES = {f"{name}.txt" for name in ("labels", "classes", "class_names", "label_names", "names")}
_TABLES = (".csv", ".tsv", ".txt")
_OF_IDS = {
    *("id", "idx", "index", "classid", "classindex", "labelid", "labelindex", "categoryid"),
    *("value", "pixelvalue", "level", "graylevel", "greyvalue", "grayvalue"),
}
_OF_NAMES = {
    *("name", "class", "classname", "label", "labelname", "category", "categoryname"),
    "description",
}
_NUMBERED = re.compile(r"(\d+)[\s:;,=]+(\S.*)")
_BACKGROUND = {"background", "bg", "void", "unlabeled", "unlabelled", "other", "none"}
_UNNAMED = ("background", "other", "unlabeled", "none", "0")
_NO_CLASS = "__ignore__"  # LabelMe's first line
_MOST_FILES = 20  # that are read
_MOST_BYTES = 2**20
_MOST_CLASSES = 255
_MOST_SHOWN = 3
_MASKS_READ = 50
_MOST = 255  # more values than classes that there may be: these are not class ids
_MOST_LEVELS = 12
_WAY_OUT = "correct it, move the file elsewhere, or say what masks show by ingest.masks"

Values = Mapping[str, str] | Mapping[str, int]
Shown = Callable[[bool], Sequence[int | str]]
"""The levels that some masks show, or else as colours."""


@dataclasses.dataclass(frozen=True)
class LabelMap:
    """A file that names classes.

    Attributes:
      path: of it.
      classes: their colours, as `#rrggbb`, or their levels, in its order.
      doubt: why masks may show others; "" if they show these.
      unnamed: what the class is called here that masks show as 0, and the file does not name.
    """

    path: str
    classes: Values
    doubt: str = ""
    unnamed: str = ""

    def say_unnamed(self) -> str:
        """That it is a class; nothing if there is none."""
        words = f"; 0, which it does not name, is {self.unnamed!r} (ingest.masks says otherwise)"
        return words * bool(self.unnamed)

    @property
    def has_colors(self) -> bool:
        """Whether colours stand for classes."""
        return any(isinstance(value, str) for value in self.classes.values())


def find_label_map(images: str, paths: Iterable[str], shown: Shown) -> LabelMap | None:
    """The file that names the classes that masks show.

    Returns:
      None if there is no such file, or none that names any class.

    Raises:
      UserError: if a line is invalid, or classes or colours are there twice; it names the line.
    """
    tables = (path for path in paths if path.lower().endswith(_TABLES))
    for path in heapq.nsmallest(_MOST_FILES, tables, key=_rank):
        try:
            data = files.read_file(files.join(images, path), 0, _MOST_BYTES)
        except (OSError, UserError):
            continue
        text = data.decode("utf-8-sig", errors="surrogateescape")
        name = path.lower().rpartition("/")[2]
        if name in _COLORS and (colors := _read_colors(path, text)):
            return LabelMap(path, _by_colors(colors, shown))
        are_said, ids = True, _read_ids(text)
        if not ids and name in _NAMES:
            are_said, ids = False, _read_names(text)
        if ids:
            unnamed = _find_unnamed(ids, shown(False)) if are_said else ""
            ids = {unnamed: 0, **ids} if unnamed else ids
            return LabelMap(path, ids, _doubt(path, ids, are_said, shown(False)), unnamed)
    return None


def _rank(path: str) -> tuple[bool, int, str]:
    return path.lower().rpartition("/")[2] not in _COLORS | _NAMES, path.count("/"), path


def _by_colors(colors: Mapping[str, str], shown: Shown) -> Values:
    """The colours of classes, or the ids, in their order, where masks show these alone."""
    levels, ids = shown(False), {name: number for number, name in enumerate(colors)}
    are_colors = any(isinstance(level, str) for level in levels)
    if are_colors or not _are_ids(levels, ids) or {*shown(True)} <= {*colors.values()}:
        return colors
    return ids


def _are_ids(levels: Sequence[int | str], ids: Mapping[str, int]) -> bool:
    """Whether masks show several of these levels, and none other."""
    own = {*levels} - {IGNORED}
    return len(own) > 1 and own <= {*ids.values()}


def _find_unnamed(ids: Mapping[str, int], levels: Sequence[int | str]) -> str:
    """A name for 0, which is of none of the classes, as ADE20K's `objectInfo150.txt` leaves it out.

    Where masks show 0 to just below the last id, these may be the classes, counted from 0.
    """
    are_from_zero = {*levels} - {IGNORED} == {*range(max(ids.values()))}
    if 0 not in levels or 0 in ids.values() or are_from_zero or len(ids) == _MOST_CLASSES:
        return ""
    return next(name for name in _UNNAMED if name not in ids)


def _doubt(path: str, ids: Mapping[str, int], are_said: bool, levels: Sequence[int | str]) -> str:
    """Whether masks show other levels; where ids are of names' order, it may begin with 1."""
    first, last = next(iter(ids)).strip("_").lower(), len(ids) - 1
    if _are_ids(levels, ids) and (are_said or first in _BACKGROUND or last in levels):
        return ""
    names = json.dumps(dict(list(ids.items())[:_MOST_SHOWN]), ensure_ascii=False).strip("{}")
    names += ", …" * (len(ids) > _MOST_SHOWN)
    return (
        f"{path} names {len(ids):,} classes, {{{names}}}, but masks show "
        f"{describe_levels(levels)}; say which is which by ingest.masks.classes"
    )


def _read_ids(text: str) -> dict[str, int]:
    """The ids of names, by a table's columns, or numbers that lines begin with; {} for other texts.

    Ids and names are there once each.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]
    head = lines[0] if lines else ""
    delimiter = max(",;\t|", key=head.count)
    header = [plain_name(name) for name in head.split(delimiter)]
    at = [
        next((n for n, name in enumerate(header) if name in of), -1) for of in (_OF_IDS, _OF_NAMES)
    ]
    if min(at) >= 0 and at[0] != at[1]:
        rows = csv.reader(lines[1:], delimiter=delimiter, skipinitialspace=True)
        pairs = [(row[at[0]].strip(), row[at[1]]) for row in rows if len(row) > max(at)]
        are_all = len(pairs) == len(lines) - 1
    else:
        matches = list(map(_NUMBERED.fullmatch, lines))
        pairs = [(match[1], match[2]) for match in matches if match]
        are_all = len(pairs) == len(lines)
    ids = {_clean(name): int(id_) for id_, name in pairs if id_.isdecimal()}
    is_once = len(ids) == len(pairs) == len({*ids.values()})
    return ids if are_all and is_once and 1 < len(ids) <= _MOST_CLASSES and "" not in ids else {}


def _read_names(text: str) -> dict[str, int]:
    """The ids of names, one a line, in their order; {} if they are none."""
    lines = [_clean(line) for line in text.splitlines() if line.strip()]
    names = [name for name in lines if name != _NO_CLASS]
    is_once = len(names) == len({*names}) and 1 < len(names) <= _MOST_CLASSES
    return {name: number for number, name in enumerate(names)} if is_once else {}


def _read_colors(path: str, text: str) -> dict[str, str]:
    lines = [
        (number, line, _read_line(line))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    return _take_lines(path, lines) if any(pair for _, _, pair in lines) else {}


def _take_lines(path: str, lines: list[tuple[int, str, tuple[str, str] | None]]) -> dict[str, str]:
    """The colours of the classes that lines name, by their numbers; raises UserError."""
    found: dict[str, str] = {}
    for number, line, pair in lines:
        is_header = number == 1 and not any(each.isdigit() for each in line)
        if pair is None and is_header:
            continue
        if pair is None:
            raise UserError(
                f"{path}:{number}: {show(line.strip())} must be a class and its colour: red, "
                f"green and blue from 0 to 255; {_WAY_OUT}."
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
            f"{path} names {len(found):,} classes, but {_MOST_CLASSES} is the most; {_WAY_OUT}."
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
    return _clean(name), "#" + "".join(f"{int(level):02x}" for level in levels)


def _clean(name: str) -> str:
    return decode_name(read_windows(name.strip()))


def read_levels(
    masks: Iterable[str], read: Callable[[str], object], as_colors: bool = False
) -> list[int | str]:
    """The gray levels or palette indices of some masks, or their colours as `#rrggbb`, ascending.

    Args:
      masks: the paths of all of them.
      read: gives one's bytes; anything else if it cannot be read.
      as_colors: whether levels and indices are reported as the colours in which they appear.
    """
    found: set[int | str] = set()
    for path in heapq.nsmallest(_MASKS_READ, masks, key=sample_hash):
        data = read(path)
        try:
            found.update(list_values(data, as_colors) if isinstance(data, bytes) else ())
        except BadImage:
            continue  # Ingest will say what is wrong with it.
    return sorted(found, key=lambda value: (isinstance(value, str), value))


def describe_levels(levels: Sequence[int | str]) -> str:
    """The levels in a line."""
    some = ", ".join(map(str, levels[:_MOST_LEVELS])) + (
        ", …" if len(levels) > _MOST_LEVELS else ""
    )
    return f"{len(levels):,} values: {some}" if levels else "nothing that can be read"


def guess_classes(levels: Sequence[int | str]) -> dict[str, int | str] | None:
    """Names for classes where ids alone will not do: of two levels, and of colours."""
    if tuple(levels) == (0, 255):
        return {"background": 0, "foreground": 255}
    if levels and len(levels) <= _MOST and all(isinstance(each, str) for each in levels):
        return {f"class_{number}": each for number, each in enumerate(levels)}
    return None
