"""CreateML: a JSON file of images and the boxes in them, one a split or one for all.

A box is told by its centre and sides in pixels, see
https://developer.apple.com/documentation/createml/building-an-object-detector-data-source.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from image_pipeline.components.labels.box_cells import BOXES, FORMAT, SIZE, StatedBoxes
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole
from image_pipeline.components.tables.annotated_folders import Look, glance, read_head, walk
from image_pipeline.components.tables.coco_folder import read_files

_BEGINS = re.compile(rb'\s*\[\s*\{.*"coordinates"\s*:\s*\{', re.DOTALL)
_IMAGE, _OBJECTS = ("image", "imagefilename"), ("annotations", "annotation")
_NUMBERS = ("x", "y", "width", "height")


def is_createml(objects: Sequence[Any]) -> bool:
    """Whether a list of JSON is one of images and boxes with coordinates."""
    return any(
        isinstance(each, dict) and isinstance(each.get("coordinates"), dict)
        for image in objects
        for each in _objects_of(image)
    )


def join_boxes(image: Any) -> Any:
    """The row of an image: `file_name` and `boxes`; what is no object stays as it is."""
    if not isinstance(image, dict):
        return image
    boxes = [_read_box(each) for each in _objects_of(image)]
    stated = StatedBoxes({SIZE: [], BOXES: boxes, FORMAT: "center_xywh"})
    rest = {key: image[key] for key in image if key not in (*_IMAGE, *_OBJECTS)}
    return rest | {"file_name": _first(image, _IMAGE), BOXES: stated}


def _objects_of(image: Any) -> list[Any]:
    found = _first(image, _OBJECTS) if isinstance(image, dict) else None
    return found if isinstance(found, list) else []


def _first(image: dict[str, Any], keys: Sequence[str]) -> Any:
    return next((image[key] for key in keys if image.get(key) is not None), None)


def _read_box(said: Any) -> Any:
    """As `box_cells.read_boxes` takes it, or as it is if it is no box, which it says then."""
    place = said.get("coordinates") if isinstance(said, dict) else None
    if not isinstance(place, dict):
        return said
    return {"bbox": [place.get(name) for name in _NUMBERS], "category": said.get("label")}


def _find_files(folder: str, look: Look = walk) -> list[tuple[str, str]]:
    """The files of a folder, or of its folders: where each is, and its name."""
    return [
        (below, name)
        for below, _, names in look(folder, 1)
        for name in names
        if name.lower().endswith(".json")
        and _BEGINS.match(read_head(os.path.join(folder, below, name), 2**16))
    ]


def _read_folder(folder: str, columns: Asked) -> Iterator[Row]:
    yield from read_files("CreateML", folder, _find_files(folder), columns)


CREATEML_FOLDER = SourceKind(
    name="a folder of CreateML files",
    in_folder=lambda folder: bool(_find_files(folder, glance)),
    files=list_whole,
    rows=_read_folder,
)
