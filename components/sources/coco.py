"""A COCO file (https://cocodataset.org/#format-data) as rows: an image each, with its boxes."""

import collections
from collections.abc import Mapping
from typing import Any

from image_pipeline.components.sources.box_cells import BOXES, CLASSES, SIZE


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
      CocoError: if it is none, or an annotation is of an image that is not listed.
    """
    images, annotations, categories = (
        _list_objects(content, key) for key in ("images", "annotations", "categories")
    )
    names = {each.get("id"): each.get("name") for each in sorted(categories, key=_id_of)}
    boxes: dict[Any, list[dict[str, Any]]] = collections.defaultdict(list)
    for each in annotations:
        boxes[each.get("image_id")].append(_take_box(each, names))
    rows = [_take_image(each, boxes.pop(each.get("id"), [])) for each in images]
    if boxes:
        raise CocoError(
            f"{len(boxes)} images have annotations, but are not listed, such as the one with the "
            f"id {next(iter(boxes))!r} (or its id is there twice); list each image once."
        )
    for row in rows[:1]:
        row[BOXES][CLASSES] = list(names.values())
    return rows


def _list_objects(content: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    listed = content.get(key)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise CocoError(
            f"it must be a COCO file, with lists of images, annotations and categories, but its "
            f"{key!r} is none; other annotations can be a table with a column of boxes."
        )
    return listed


def _id_of(category: Mapping[str, Any]) -> tuple[bool, Any]:
    id_ = category.get("id")
    return (False, id_) if isinstance(id_, int) else (True, str(id_))


def _take_box(annotation: Mapping[str, Any], names: Mapping[Any, Any]) -> dict[str, Any]:
    category = annotation.get("category_id")
    return {
        "bbox": annotation.get("bbox"),
        "category": names.get(category, category),
        "iscrowd": annotation.get("iscrowd", 0),
    }


def _take_image(image: Mapping[str, Any], boxes: list[dict[str, Any]]) -> dict[str, Any]:
    sides = [image.get("width"), image.get("height")]
    stated = sides if all(isinstance(side, int) for side in sides) else []
    return {
        "file_name": image.get("file_name"),
        "image_id": image.get("id"),
        BOXES: {SIZE: stated, BOXES: boxes},
    }
