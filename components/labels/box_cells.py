"""A cell of boxes, in the ways that people write it, to `BoxAnnotation`es."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components.json_text import parse_json
from image_pipeline.components.labels.boxes import BoxAnnotation
from image_pipeline.components.names import decode_name, read_windows

SIZE, BOXES, CLASSES, IDS, FORMAT = "size", "boxes", "classes", "ids", "format"
"""Keys of a `StatedBoxes`; the last three may be left out."""

_NUMBERS = ("bbox", "bboxes", "box", "boxes")
_NAMES = (
    *("category", "categories", "label", "labels", "class", "classes", "name", "names"),
    *("category_name", "class_name", "category_id", "class_id"),
)
_CROWD = ("iscrowd", "is_crowd", "crowd")


class StatedBoxes(dict[str, Any]):
    """A cell that states its image's width and height beside the boxes, as COCO does.

    The first one states all classes, too; or each has the ids of its own classes, by name. The
    format is one of `BoxOptions`.
    """


def read_boxes(cell: Any) -> tuple[list[int], list[BoxAnnotation]]:
    """Reads a cell.

    Args:
      cell: a list of boxes, each an object such as `{"bbox": [1, 2, 3, 4], "category": "cat"}` or
        a list such as `[1, 2, 3, 4, "cat"]`; or one object of lists, `{"bbox": […], "category":
        […]}`, as Hugging Face's data sets have them; or any of these as JSON text. Empty: no
        box.

    Returns:
      Width and height of the image that the boxes are for, empty if not stated; and the boxes.

    Raises:
      ValueError: if it is not one of these.
    """
    if isinstance(cell, str):
        try:
            cell = parse_json(cell) if cell.strip() else None
        except json.JSONDecodeError as error:
            raise ValueError(f"{cell[:40]!r} is not valid JSON") from error
    if not cell:
        return [], []
    if isinstance(cell, StatedBoxes):
        return list(cell[SIZE]), list(map(_read_one, cell[BOXES]))
    if isinstance(cell, Mapping):
        cell = _transpose(cell)
    if not isinstance(cell, list):
        raise ValueError(f"{cell!r} is not a list of boxes")
    return [], list(map(_read_one, cell))


def may_be_boxes(cell: Any) -> bool:
    """Whether a cell is written as boxes are, right or wrong, or is empty."""
    if isinstance(cell, str):
        start = "".join(cell[:9].split())
        return not start or start.startswith(("[[", "[{", "[]", "{", "null"))
    first = cell[0] if cell and isinstance(cell, list) else cell
    return not cell or isinstance(first, Mapping) or (first is not cell and isinstance(first, list))


def _transpose(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One object of lists as a list of objects."""
    known = {key: values for key, values in lists.items() if key in (*_NUMBERS, *_NAMES, *_CROWD)}
    kept = {key: values for key, values in known.items() if values is not None}
    if known and not kept:
        return []  # As Parquet has an object that is not there.
    are_lists = all(isinstance(values, list) for values in kept.values())
    if not kept or not are_lists or len({len(values) for values in kept.values()}) > 1:
        raise ValueError("an object of boxes must have lists of one length")
    return [dict(zip(kept, values, strict=True)) for values in zip(*kept.values(), strict=True)]


def _read_one(box: Any) -> BoxAnnotation:
    if isinstance(box, Mapping):
        numbers, name = _first(box, _NUMBERS), _first(box, _NAMES)
        crowd = _first(box, _CROWD)
    elif isinstance(box, Sequence) and not isinstance(box, str) and len(box) == 5:
        numbers, name, crowd = list(box[:4]), box[4], None
    else:
        raise ValueError(f"{box!r} is not a box: four numbers and a class")
    if not _are_numbers(numbers):
        raise ValueError(f"a box must have four numbers, got {numbers!r}")
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    if not isinstance(name, str | int) or isinstance(name, bool) or not str(name).strip():
        raise ValueError(f"a box must have a class, got {name!r}")
    if crowd not in (None, 0, 1):
        raise ValueError(f"{crowd!r} does not say whether a box is a crowd; it must be 0 or 1")
    left, top, right, bottom = map(float, numbers)
    return BoxAnnotation(
        (left, top, right, bottom), decode_name(read_windows(str(name).strip())), bool(crowd)
    )


def _are_numbers(numbers: Any) -> bool:
    is_list = isinstance(numbers, list) and len(numbers) == 4
    return is_list and all(
        isinstance(n, int | float) and not isinstance(n, bool) and abs(n) <= sys.float_info.max
        for n in numbers
    )


def _first(box: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((box[key] for key in keys if box.get(key) is not None), None)
