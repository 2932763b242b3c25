"""COCO's panoptic annotations: a PNG an image, each of whose colours is a segment of a category.

Their form: https://cocodataset.org/#format-data, 4. Panoptic Segmentation.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.messages import show
from image_pipeline.components.sources.rows import EmbeddedImage, TableError
from image_pipeline.components.tables.annotated_folders import walk
from image_pipeline.components.tables.drawn_masks import (
    find_time,
    list_levels,
    refer_to_segments,
)

_LOOKED_FOR = 20  # masks, to find the folder that they are in

Objects = Sequence[Mapping[str, Any]]


def is_panoptic(annotations: Objects) -> bool:
    """Whether a COCO file's annotations are of panoptic segments."""
    return any("segments_info" in each for each in annotations[:1])


def read_panoptic(
    path: str, images: Objects, annotations: Objects, names: Mapping[Any, str]
) -> list[dict[str, Any]]:
    """Joins images and their segments; categories are drawn with their own ids.

    Returns:
      A row an image, in the order of the file: `file_name`, `image_id` and `mask`; the first mask
      tells all classes.

    Raises:
      TableError: if a category's id can be no level, or an image has two annotations.
    """
    classes = list_levels(names)
    by_image: dict[Any, Mapping[str, Any]] = {}
    for each in annotations:
        if (id_ := each.get("image_id")) in by_image:
            raise TableError(1, f"two annotations are of the image {show(id_)}; keep one.")
        by_image[id_] = each
    folder = _find_folder(path, annotations)
    rows: list[dict[str, Any]] = []
    for image in images:
        matching = by_image.get(image.get("id"))
        mask: EmbeddedImage | None = None
        if matching is not None:
            png = files.join(folder, _file_name(matching))
            segments = _read_segments(matching, names)
            mask = refer_to_segments(png, segments, classes, find_time(png))
            classes = {}  # The first one tells them.
        row = {"file_name": image.get("file_name"), "image_id": image.get("id")}
        rows.append(row | {"mask": mask})
    return rows


def _file_name(annotation: Mapping[str, Any]) -> str:
    name = annotation.get("file_name")
    if not isinstance(name, str) or not name:
        image = show(annotation.get("image_id"))
        raise TableError(1, f"the annotation of the image {image} names no PNG as its 'file_name'.")
    return name.replace("\\", "/")


def _read_segments(annotation: Mapping[str, Any], names: Mapping[Any, str]) -> dict[int, int]:
    """The category's id of each segment's."""
    found: dict[int, int] = {}
    listed = annotation.get("segments_info")
    for each in listed if isinstance(listed, list) else [None]:
        id_, category = map(each.get, ("id", "category_id")) if isinstance(each, dict) else (0, 0)
        if not isinstance(id_, int) or not isinstance(category, int) or category not in names:
            image = show(annotation.get("image_id"))
            raise TableError(
                1,
                f"the image {image} has an invalid segment, {show(each)}: it must be an object "
                "with an 'id' and the 'category_id' of a category that is listed.",
            )
        found[id_] = category
    return found


def _find_folder(path: str, annotations: Objects) -> str:
    """The folder of the PNGs: that of the file's name, as COCO's, or where the first ones are."""
    usual = path.rpartition(".")[0]
    if not files.is_local(path):
        return usual
    beside = os.path.dirname(path) or "."
    places = [usual, *(os.path.join(beside, below) for below, _, _ in walk(beside, most_deep=2))]
    above = os.path.join(beside, "..")
    places += [os.path.join(above, below) for below, _, _ in walk(above, most_deep=1)]
    # Images may be PNGs of the same names.
    places.sort(key=lambda place: place != usual and "panoptic" not in os.path.basename(place))
    named = [_file_name(each) for each in annotations[:_LOOKED_FOR]]
    return max(
        places, key=lambda place: sum(os.path.exists(os.path.join(place, name)) for name in named)
    )
