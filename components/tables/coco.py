"""A COCO file (https://cocodataset.org/#format-data) as rows: an image each, with its boxes."""

import collections
from collections.abc import Iterable, Mapping
from typing import Any

from image_pipeline.components.messages import show
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.box_cells import BOXES, CLASSES, SIZE, StatedBoxes

_MOST_PX = 2**31  # of a side: more is no size


class CocoError(ValueError):
    """A JSON object that is no COCO file; the message says why, and what to do."""


def read_coco(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Joins images, annotations and categories.

    Args:
      content: the whole file.

    Returns:
      A row an image, in the order of the file: `file_name`, `image_id` and `boxes`, see
      `box_cells.read_boxes`. The first one also tells all classes, in the order of their ids.

    Raises:
      CocoError: if it is none, or an annotation is of an image that is not listed, or of two.
    """
    images, annotations, categories = (
        _list_objects(content, key) for key in ("images", "annotations", "categories")
    )
    names = {each.get("id"): _name_of(each) for each in sorted(categories, key=_id_of)}
    boxes: dict[Any, list[dict[str, Any]]] = collections.defaultdict(list)
    for each in annotations:
        boxes[each.get("image_id")].append(_take_box(each, names))
    _check_ids(collections.Counter(each.get("id") for each in images), boxes)
    rows = [_take_image(each, boxes.get(each.get("id"), [])) for each in images]
    for row in rows[:1]:
        row[BOXES][CLASSES] = list(names.values())
    return rows


def _list_objects(content: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    listed = content.get(key)
    if not isinstance(listed, list) or not all(map(_is_object, listed)):
        raise CocoError(
            f"it must be a COCO file, with lists of images, annotations and categories, but its "
            f"{key!r} is none; other annotations can be a table with a column of boxes."
        )
    return listed


def _is_object(each: Any) -> bool:
    ids = ("id", "image_id", "category_id")
    return isinstance(each, dict) and not any(isinstance(each.get(id_), list | dict) for id_ in ids)


def _check_ids(listed: Mapping[Any, int], boxes: Iterable[Any]) -> None:
    """Checks that it is plain which image each annotation is of."""
    if stray := [id_ for id_ in boxes if id_ not in listed]:
        raise CocoError(
            f"{len(stray)} images have annotations, but are not listed, such as the one with the "
            f"id {show(stray[0])}; list each image once."
        )
    if shared := [id_ for id_ in boxes if listed[id_] > 1]:
        raise CocoError(
            f"{listed[shared[0]]} images have the id {show(shared[0])}, which annotations name; "
            "give each an id of its own."
        )


def _id_of(category: Mapping[str, Any]) -> tuple[bool, Any]:
    """What puts ids in order: numbers, even as text, before names."""
    id_ = category.get("id")
    try:
        return (False, float(id_))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return (True, str(id_))


def _name_of(category: Mapping[str, Any]) -> str:
    """As a box has it, see `read_boxes`; the id, if it has none."""
    name = category.get("name")
    return decode_name(str(category.get("id") if name is None else name).strip())


def _take_box(annotation: Mapping[str, Any], names: Mapping[Any, Any]) -> dict[str, Any]:
    category = annotation.get("category_id")
    return {
        "bbox": annotation.get("bbox"),
        "category": names.get(category, category),
        "iscrowd": annotation.get("iscrowd", 0),
    }


def _take_image(image: Mapping[str, Any], boxes: list[dict[str, Any]]) -> dict[str, Any]:
    sides = [image.get("width"), image.get("height")]
    is_stated = all(isinstance(side, int | float) and 1 <= side < _MOST_PX for side in sides)
    return {
        "file_name": image.get("file_name"),
        "image_id": image.get("id"),
        BOXES: StatedBoxes({SIZE: sides if is_stated else [], BOXES: boxes}),
    }
