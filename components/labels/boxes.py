"""Any number of objects an image: boxes with a class.

As people write them, they become shares of the stored, upright image, checked one by one.
"""

import collections
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pydantic

from image_pipeline.components.augment.options import CutMix, Mixup
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.record import (
    BOX_COLUMNS,
    BOX_TEXT,
)
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.prepare import PreparedImage
from image_pipeline.components.labels.kind import (
    BOX_LABELS,
    COLUMNS,
    PLACES,
    VISIBLE,
    WEIGHTED,
    Fitted,
    LabelKind,
    Tensors,
)
from image_pipeline.components.options import Options
from image_pipeline.components.views.options import ViewOptions

BAD_BOX = "bad_box"
CLIPPED = "clipped_boxes"
"""The note of an image of which boxes were cut at its edge, with a colon and their number."""

Format = (
    Literal["xywh", "xyxy", "yxyx", "center_xywh"]
    | Literal["rel_xywh", "rel_xyxy", "rel_yxyx", "rel_center_xywh"]
)

# Where a corner (x, y), as a share of the file's own sides, stands once the image is upright, by
# its EXIF orientation.
_TURNS = {
    1: lambda x, y: (x, y),
    2: lambda x, y: (1 - x, y),
    3: lambda x, y: (1 - x, 1 - y),
    4: lambda x, y: (x, 1 - y),
    5: lambda x, y: (y, x),
    6: lambda x, y: (1 - y, x),
    7: lambda x, y: (1 - y, 1 - x),
    8: lambda x, y: (y, 1 - x),
}


class BoxOptions(Options):
    """How a table's column of boxes is read."""

    format: Format = "xywh"
    """What a box's four numbers are, by Keras's names: `xywh` (left, top, width, height, as COCO
    has them), `xyxy` (left, top, right, bottom), `yxyx`, or `center_xywh`; in pixels of the image,
    or with `rel_` in shares of its sides."""
    classes: tuple[str, ...] | None = None
    """The classes that boxes may have, in the order of their ids. None: those of a COCO file in the
    order of its ids, or all that a table names, sorted."""
    orientation: Literal["upright", "stored"] = "upright"
    """Which pixels the numbers mean where a photo is to be turned by its EXIF orientation: those
    of the upright photo, as viewers show it, or those of the file. (Where a COCO file states a size
    that only one of them has, it is that one.)"""
    bad_boxes: Literal["quarantine", "drop"] = "quarantine"
    """What happens to an image with a box that has no area, lies outside, or has no class that
    there may be: it is quarantined as `bad_box`, or loses that box and is noted `dropped_boxes`.
    (A box that is only partly outside is clipped, and noted `clipped_boxes`.)"""

    @pydantic.field_validator("classes")
    @classmethod
    def _check_classes(cls, classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if classes is not None and (not classes or len(set(classes)) < len(classes)):
            raise ValueError(
                f"boxes.classes must be different names, at least one, got {list(classes)}; keep "
                "one of each, or leave it out."
            )
        return classes


class BoxAnnotation(NamedTuple):
    """A box as a table has it: four numbers, see `BoxOptions.format`; its class; and its crowd.

    A crowd is a box around several objects that were not annotated one by one.
    """

    numbers: tuple[float, float, float, float]
    name: str
    is_crowd: bool = False


def say_cut(cut: int, images: int) -> str:
    """A warning if boxes are cut in most images, as those of another format are; "" if not."""
    if 2 * cut <= images:
        return ""
    return (
        f"{cut:,} of {images:,} images have boxes that reach beyond them, and are cut: if the four "
        "numbers are in another order, or of another size of the image, set ingest.boxes.format"
    )


def prepare_boxes(
    boxes: Sequence[BoxAnnotation],
    stated_size: Sequence[int],
    image: PreparedImage,
    options: BoxOptions,
) -> Fitted:
    """Places boxes in the stored image.

    Args:
      boxes: as they were annotated.
      stated_size: width and height of the image as they were written; empty if they were not.
      image: the image, once it is stored.
      options: with all classes.

    Returns:
      The features `BOX_COLUMNS`, each with an element a box, and what was unusual.

    Raises:
      BadImage: if a box is invalid and `bad_boxes` is "quarantine", or the stated size is another.
    """
    orientation = _orientation(stated_size, image, options)
    ids = {name: number for number, name in enumerate(options.classes or (), 1)}
    kept: list[tuple] = []
    clipped = dropped = 0
    for number, box in enumerate(boxes):
        sides = _to_shares(box.numbers, image, orientation, options.format)
        inside = tuple(min(max(side, 0.0), 1.0) for side in sides)
        upright = _turn(inside, orientation)
        if problem := _find_problem(sides, upright, box, ids):
            if options.bad_boxes == "quarantine":
                shown = [round(each, 3) for each in box.numbers]
                raise BadImage(BAD_BOX, f"box {number}, {box.name} {shown}, {problem}")
            dropped += 1
            continue
        clipped += _is_cut(sides, inside, _size_of(image, orientation))
        left, top, right, bottom = upright
        area = (right - left) * image.width * (bottom - top) * image.height
        place = (left, right, top, bottom, box.name, ids[box.name], area, int(box.is_crowd))
        kept.append(place)
    notes = {CLIPPED: clipped, "dropped_boxes": dropped}
    features = tuple(zip(*kept, strict=True)) or ((),) * len(BOX_COLUMNS)
    counted_notes = tuple(f"{note}:{count}" for note, count in notes.items() if count)
    return Fitted(features=features, notes=counted_notes)


def _orientation(stated: Sequence[int], image: PreparedImage, options: BoxOptions) -> int:
    """The EXIF orientation by which boxes have still to be turned.

    Raises:
      BadImage: if the stated size is not the image's.
    """
    stored = (image.source_width, image.source_height)
    upright = stored[::-1] if image.orientation > 4 else stored
    as_stored = image.orientation if options.orientation == "stored" else 1
    if not stated:
        return as_stored
    if tuple(stated) not in (stored, upright):
        raise BadImage(
            BAD_BOX,
            f"its boxes are for an image of {stated[0]}x{stated[1]} px, but it has "
            f"{upright[0]}x{upright[1]}",
        )
    if stored == upright:
        return as_stored
    return image.orientation if tuple(stated) == stored else 1


def _to_shares(
    numbers: Sequence[float], image: PreparedImage, orientation: int, format_: str
) -> tuple[float, float, float, float]:
    """Left, top, right and bottom as shares of the sides that the numbers are of."""
    a, b, c, d = numbers
    sides = {
        "xywh": (a, b, a + c, b + d),
        "xyxy": (a, b, c, d),
        "yxyx": (b, a, d, c),
        "center_xywh": (a - c / 2, b - d / 2, a + c / 2, b + d / 2),
    }[format_.removeprefix("rel_")]
    if format_.startswith("rel_"):
        return sides
    width, height = _size_of(image, orientation)
    return sides[0] / width, sides[1] / height, sides[2] / width, sides[3] / height


def _size_of(image: PreparedImage, orientation: int) -> tuple[int, int]:
    """Width and height of the image that boxes are of, which have still to be turned so."""
    is_upright = image.orientation > 4 and orientation == 1
    width, height = image.source_width, image.source_height
    return (height, width) if is_upright else (width, height)


def _turn(sides: Sequence[float], orientation: int) -> tuple[float, float, float, float]:
    """Left, top, right and bottom as an EXIF orientation brings them upright."""
    (x0, y0), (x1, y1) = (_TURNS[orientation](*corner) for corner in (sides[:2], sides[2:]))
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def _find_problem(
    sides: Sequence[float], upright: Sequence[float], box: BoxAnnotation, ids: dict[str, int]
) -> str | None:
    """Why a box cannot be stored, after what it is called; None if it can."""
    if not all(map(math.isfinite, sides)):
        return "has a side that is not a number"
    if sides[2] <= sides[0] or sides[3] <= sides[1]:
        return "has no area"
    if max(sides[:2]) >= 1 or min(sides[2:]) <= 0:
        return "lies outside of the image"
    left, top, right, bottom = map(np.float32, upright)  # as records have them
    if right <= left or bottom <= top:
        return "has no area"
    if box.name not in ids:
        return "is of a class that is not one of ingest.boxes.classes"
    return None


def _is_cut(sides: Sequence[float], inside: Sequence[float], size: tuple[int, int]) -> bool:
    """Whether more than half a pixel of a side was cut off; less comes of rounding."""
    cut = (abs(a - b) * length for a, b, length in zip(sides, inside, size * 2, strict=True))
    return max(cut) > 0.5


class Boxes(LabelKind):
    """Each record has a list of each side of its boxes, of their classes, areas and crowds."""

    name = "boxes"
    another = "other boxes"
    columns = COLUMNS
    counted = "box_counts"
    moves: ClassVar[Mapping[str, str]] = {"boxes": PLACES, "visible": VISIBLE}
    unmixed = (
        (Mixup, CutMix),
        "mixup or cutmix, which mix the labels of two images, and boxes cannot be mixed; leave "
        "them out.",
    )
    unweighted = WEIGHTED.format("each box has a class")
    unsmoothed = "boxes are compared point by point"

    def fit(self, cell: Any, image: PreparedImage, options: BoxOptions | None) -> Fitted:
        """The boxes of a pair that `box_cells.read_boxes` gives; as `prepare_boxes`."""
        if cell is None:
            return Fitted()
        size, boxes = cell
        return prepare_boxes(boxes, size, image, options or BoxOptions())

    def count(self, rows: pa.Table) -> dict[str, Any]:
        """How many boxes each class has, and the most that an image has."""
        index = BOX_COLUMNS.index(BOX_TEXT) - len(BOX_COLUMNS)  # They are the last features.
        names = [json.loads(cells)[index] for cells in rows["further"].to_pylist()]
        counts = collections.Counter(itertools.chain.from_iterable(names))
        most = max(map(len, names), default=0)
        return {"box_counts": dict(sorted(counts.items())), "most_boxes": most}

    def add_up(self, counted: Sequence[dict[str, Any]], options: Any) -> dict[str, Any]:
        """`box_counts` and `most_boxes`; every class is counted."""
        counts = collections.Counter(dict.fromkeys((options and options.classes) or (), 0))
        for each in counted:
            counts.update(each["box_counts"])
        most = max((each["most_boxes"] for each in counted), default=0)
        return {"box_counts": dict(counts), "most_boxes": most}

    def describe(self, names: Sequence[str], counts: Mapping[str, int]) -> dict[str, Any]:
        """The classes, and how many boxes each has."""
        return {"box_classes": list(names), "box_counts": [counts.get(name, 0) for name in names]}

    def shapes(self, view: ViewOptions, most: int | None) -> dict[str, list[int | None]]:
        """Boxes, their classes, and which share of each is visible."""
        return {PLACES: [most, 4], BOX_LABELS: [most], VISIBLE: [most]}

    def place(self, batch: Tensors, windows: Any, view: ViewOptions, most: int | None) -> Tensors:
        """As `place_boxes`."""
        from image_pipeline.components.labels.box_batches import place_boxes

        return place_boxes(batch, windows, view, most)

    def truth(self, batch: Tensors, views: Any, min_visible: float) -> Tensors:
        """As `finish_boxes`."""
        from image_pipeline.components.labels.box_batches import finish_boxes

        return finish_boxes(views.boxes, views.visible, batch[BOX_LABELS], min_visible)

    def class_names(self, manifest: Manifest) -> tuple[str, ...]:
        """As `ingest.boxes.classes` has them; the first has the id 1."""
        return tuple(manifest.options["boxes"]["classes"])


BOXES: LabelKind = Boxes()
