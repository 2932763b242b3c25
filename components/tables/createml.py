"""JSON lists of images and the boxes in them, one a split or one for all.

CreateML tells a box by its centre and sides in pixels, see
https://developer.apple.com/documentation/createml/building-an-object-detector-data-source; BDD100K
by corners, see https://doc.bdd100k.com/format.html; Visual Genome by a corner and sides.
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from image_pipeline.components.labels.box_cells import BOXES, FORMAT, SIZE, StatedBoxes
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole
from image_pipeline.components.tables.annotated_folders import (
    Look,
    find_files,
    glance,
    read_head,
    walk,
)
from image_pipeline.components.tables.coco_folder import read_files

_BEGINS = re.compile(rb'\s*\[\s*\{.*"(coordinates|box2d)"\s*:\s*\{', re.DOTALL)
_IMAGE = ("image", "imagefilename", "file_name", "name", "image_url")
_OBJECTS = ("annotations", "annotation", "labels", "objects")


@dataclasses.dataclass(frozen=True)
class BoxForm:
    """How the objects of images say where they are.

    Attributes:
      name: of who writes it so.
      words: for messages.
      key: that of the numbers; "" if they are the object's own.
      numbers: their keys.
      format: what they are, as `BoxOptions` has it.
    """

    name: str
    words: str
    key: str
    numbers: tuple[str, ...]
    format: str

    def box_of(self, item: Any) -> dict[str, Any] | None:
        """Where an object has its numbers; None if it has none."""
        box = item.get(self.key) if self.key and isinstance(item, dict) else item
        has_all = isinstance(box, dict) and (self.key or box.keys() >= {*self.numbers})
        return box if has_all else None


_FORMS = (
    BoxForm(
        "CreateML",
        "centre and sides",
        "coordinates",
        ("x", "y", "width", "height"),
        "center_xywh",
    ),
    BoxForm("BDD100K", "corners", "box2d", ("x1", "y1", "x2", "y2"), "xyxy"),
    BoxForm("Visual Genome", "left, top and sides", "", ("x", "y", "w", "h"), "xywh"),
)


def find_form(objects: Sequence[Any]) -> BoxForm | None:
    """The form of boxes that a list of JSON has; None if it does not list images and boxes."""
    items = [each for image in objects for each in _objects_of(image)]
    return next((form for form in _FORMS if any(map(form.box_of, items))), None)


def join_boxes(image: Any, form: BoxForm) -> Any:
    """The row of an image: `file_name` and `boxes`; what is not an object stays as it is.

    What BDD100K says of the image, in `attributes`, is a column each; lanes and areas are
    not boxes.
    """
    if not isinstance(image, dict):
        return image
    objects = [each for each in _objects_of(image) if not _is_outline(each, form)]
    boxes = [_read_box(each, form) for each in objects]
    stated = StatedBoxes({SIZE: [], BOXES: boxes, FORMAT: form.format})
    name = next((key for key in _IMAGE if image.get(key) is not None), "")
    path = image.get(name)
    if name == "image_url" and isinstance(path, str):
        path = path.rpartition("/")[2]
    rest = {key: image[key] for key in image if key not in (name, *_OBJECTS, "attributes")}
    attributes = image.get("attributes")
    rest |= attributes if isinstance(attributes, dict) else {}
    return rest | {"file_name": path, BOXES: stated}


def count_outlines(objects: Sequence[Any], form: BoxForm) -> int:
    """How many objects are not boxes, but lines or areas."""
    return sum(_is_outline(each, form) for image in objects for each in _objects_of(image))


def _is_outline(item: Any, form: BoxForm) -> bool:
    return isinstance(item, dict) and "poly2d" in item and form.box_of(item) is None


def _objects_of(image: Any) -> list[Any]:
    found = _first(image, _OBJECTS) if isinstance(image, dict) else None
    return found if isinstance(found, list) else []


def _first(image: dict[str, Any], keys: Sequence[str]) -> Any:
    return next((image[key] for key in keys if image.get(key) is not None), None)


def _read_box(item: Any, form: BoxForm) -> Any:
    """As `box_cells.read_boxes` takes it, or as it is if it is not a box, which it says then."""
    box = form.box_of(item)
    if box is None:
        return item
    names = item.get("names")
    name = _first(item, ("label", "category")) or (
        names[0] if isinstance(names, list) and names else None
    )
    return {"bbox": [box.get(number) for number in form.numbers], "category": name}


def _find_files(folder: str, look: Look = walk) -> list[tuple[str, str]]:
    """The files of a folder, or of its folders: where each is, and its name."""
    return [
        each
        for each in find_files(folder, ".json", look, 2)
        if _BEGINS.match(read_head(os.path.join(folder, *each), 2**16))
    ]


def _read_folder(folder: str, columns: Asked) -> Iterator[Row]:
    found = _find_files(folder)
    begins = _BEGINS.match(read_head(os.path.join(folder, *found[0]), 2**16))
    form = next(each for each in _FORMS if begins and each.key == begins[1].decode())
    yield from read_files(form.name, folder, found, columns)


CREATEML_FOLDER = SourceKind(
    name="a folder of JSON lists of boxes",
    in_folder=lambda folder: bool(_find_files(folder, glance)),
    files=list_whole,
    rows=_read_folder,
)
