"""LabelMe: a JSON file of shapes an image, beside it (https://github.com/wkentaro/labelme).

Where all shapes are rectangles they are boxes; else they are masks of their labels.
"""

import base64
import functools
import io
import json
import math
import os
import posixpath
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from image_pipeline.components.extras import need
from image_pipeline.components.json_text import parse_json
from image_pipeline.components.labels.box_cells import BOXES, FORMAT, SIZE, StatedBoxes
from image_pipeline.components.messages import show
from image_pipeline.components.sources.file_names import split_in_path
from image_pipeline.components.sources.rows import Row, TableError
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole
from image_pipeline.components.sources.understood import noticed, understood
from image_pipeline.components.tables.annotated_folders import (
    find_files,
    find_image,
    holds,
    notice_others,
    say_splits,
)
from image_pipeline.components.tables.drawn_masks import IGNORE, NO_SEGMENT, find_time
from image_pipeline.components.tables.outlines import (
    BACKGROUND,
    COLUMN,
    MOST_PIXELS,
    asks_for_outlines,
    refer_to_outlines,
)

_SHAPES = re.compile(rb'"shapes"\s*:\s*\[')
_MOST_BYTES = 2**28  # of a file, which may hold its image as text
_MOST_CORNERS = 720  # of a circle, of two for each degree
_WITHOUT_AREA = ("point", "points", "line", "linestrip")

Corners = list[list[float]]
Shape = tuple[str, str, Corners, Any]  # a label, a type, the corners around it, and its outline


def read_labelme(folder: str, columns: Asked) -> Iterator[Row]:
    """Reads all JSON files of shapes below a folder, in the order of their paths.

    Yields:
      A row an image: where it is, its boxes or its mask, and the split that folders name. A file
      that cannot be read is a row with a problem.

    Raises:
      TableError: if no shape has an area.
      UserError: if what draws masks is not installed.
    """
    found: list[tuple[str, dict[str, Any], list[Shape]] | str] = []
    others, left_out, of_none = 0, 0, 0
    for path in (posixpath.join(*each) for each in find_files(folder, ".json")):
        try:
            content = _read_file(os.path.join(folder, path))
            if "shapes" not in content:
                others += 1
                continue
            size = _read_size(content)
            shapes = [_read_shape(each, size) for each in content["shapes"]]
        except ValueError as error:
            found.append(f"{path} {error}")
            continue
        kept = [shape for shape in shapes if shape[1] not in _WITHOUT_AREA]
        left_out += len(shapes) - len(kept)
        found.append((path, content, kept))
    read = [each for each in found if not isinstance(each, str)]
    kinds = {shape[1] for _, _, shapes in read for shape in shapes}
    if not kinds:
        first = next((f"; {each}" for each in found if isinstance(each, str)), "")
        raise TableError(
            1,
            f"no shape has an area, so there are neither boxes nor masks{first}. Labels of whole "
            "images, as LabelMe's flags are, can be a CSV with the columns path and label.",
        )
    are_boxes = columns.get("boxes") == BOXES
    are_boxes |= kinds == {"rectangle"} and not asks_for_outlines(columns)
    if not are_boxes:
        need("coco", f"Drawing the shapes of {folder!r} as masks")
    names = sorted({shape[0] for _, _, shapes in read for shape in shapes} - {BACKGROUND})
    levels = {BACKGROUND: NO_SEGMENT, **{name: 1 + number for number, name in enumerate(names)}}
    classes = {name: [level] for name, level in levels.items()}
    splits, taken = [], set[str]()
    for number, each in enumerate(found, 1):
        if isinstance(each, str):
            yield Row(number, {}, each)
            continue
        path, content, shapes = each
        below, _, name = path.rpartition("/")
        image, _ = find_image(folder, below, name[:-5], str(content.get("imagePath") or ""))
        taken.add(os.path.splitext(os.path.basename(image))[0])
        size = _read_size(content)
        cells: dict[str, Any] = {"image": image}
        if are_boxes:
            own = [shape for shape in shapes if shape[0] != IGNORE]
            boxes = [{"bbox": _surround(corners), "category": n} for n, _, corners, _ in own]
            of_none += len(shapes) - len(own)
            cells[BOXES] = StatedBoxes({SIZE: size, BOXES: boxes, FORMAT: "xyxy"})
        else:
            objects = [
                (levels[label], json.dumps(outline), f"the shape {at} ({show(label)})")
                for at, (label, _, _, outline) in enumerate(shapes, 1)
            ]
            whole = os.path.join(folder, path)
            cells[COLUMN] = refer_to_outlines(
                whole, size, objects, classes, find_time(whole), image
            )
            classes = {}  # The first one tells them.
        split = split_in_path(below)
        splits.append(split)
        yield Row(number, cells | ({"split": split} if split else {}))
    if are_boxes:
        what = f"boxes around shapes; ingest.columns={{mask: {COLUMN}}} takes masks of them"
    else:
        what = f"masks of shapes; ingest.columns={{boxes: {BOXES}}} takes the boxes around them"
    understood(f"LabelMe: {what}{say_splits(splits)}")
    notice_others("LabelMe", folder, taken)
    if left_out:
        noticed(f"LabelMe: points and lines have no area, and are left out: {left_out:,}")
    if of_none:
        noticed(f"LabelMe: shapes called {IGNORE} are not boxes, and are left out: {of_none:,}")
    if others:
        noticed(f"LabelMe: JSON files that have no shapes are not read: {others:,}")


def _read_file(path: str) -> dict[str, Any]:
    """What a file says; ValueError says what is wrong."""
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise ValueError(f"has more than {_MOST_BYTES:,} bytes")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    try:
        content = parse_json(data)
        if b"\\ud" in data.lower():  # Half a surrogate pair is not text.
            json.dumps(content, ensure_ascii=False).encode()
    except ValueError as error:
        raise ValueError(f"is not valid JSON ({error})") from error
    if not isinstance(content, dict):
        return {}
    if not isinstance(content.get("shapes", []), list):
        raise ValueError(f"has the shapes {show(content['shapes'])}, which are not a list")
    return content


def _read_shape(shape: Any, size: list[int]) -> Shape:
    """A shape of an image of a width and height; ValueError says what is wrong."""
    if not isinstance(shape, dict) or not str(shape.get("label") or "").strip():
        raise ValueError(f"has a shape without a label, {show(shape)}")
    label, kind = str(shape["label"]).strip(), shape.get("shape_type") or "polygon"
    try:
        points = np.asarray(shape.get("points"), np.float64).reshape(-1, 2)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"has a shape of {show(label)} whose points are not pairs") from error
    if not np.isfinite(points).all():
        raise ValueError(f"has a shape of {show(label)} whose points are not finite")
    if kind in ("rectangle", "circle", "mask") and len(points) < 2:
        raise ValueError(f"has a {kind} of {show(label)} of {len(points)} points, where it has two")
    if kind == "mask":
        outline = _read_mask(shape.get("mask"), points, size, show(label))
        return label, kind, [points[0].tolist(), (points[1] + 1).tolist()], outline
    if kind == "rectangle":
        (left, top), (right, bottom) = points.min(0), points.max(0)
        points = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    elif kind == "circle":
        radius = math.dist(points[0], points[1])
        corners = int(min(_MOST_CORNERS, max(16, 2 * math.pi * radius)))
        angles = np.arange(corners) * (2 * math.pi / corners)
        points = points[0] + radius * np.stack([np.cos(angles), np.sin(angles)], 1)
    elif kind not in ("polygon", "rotation", *_WITHOUT_AREA):
        raise ValueError(
            f"has a shape of {show(label)} of the type {show(kind)}, which is not drawn; make it a "
            "polygon"
        )
    return label, kind, points.tolist(), [points.tolist()]


def _read_mask(encoded: Any, points: np.ndarray, size: list[int], label: str) -> dict[str, Any]:
    """A mask between two points, the last one inside, as COCO's run lengths of the whole image."""
    (left, top), (right, bottom) = (map(int, point) for point in points[:2].tolist())
    width, height = size or (0, 0)
    if not (0 <= left <= right < width and 0 <= top <= bottom < height):
        raise ValueError(f"has a mask of {label} outside of its {width} x {height} pixels")
    if width * height > MOST_PIXELS:
        raise ValueError(f"has a mask of {width} x {height} pixels; there may be {MOST_PIXELS:,}")
    try:
        with Image.open(io.BytesIO(base64.b64decode(str(encoded), validate=True))) as opened:
            if opened.size != (right - left + 1, bottom - top + 1):
                raise ValueError(f"its size is {opened.size}")
            pixels = np.asarray(opened.convert("L")) > 0
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(
            f"has a mask of {label} that does not fit between its points ({error})"
        ) from error
    whole = np.zeros((height, width), bool)
    whole[top : bottom + 1, left : right + 1] = pixels
    flat = np.concatenate([[False], whole.T.ravel()])  # The first run is without it.
    ends = np.append(np.flatnonzero(np.diff(flat)), width * height)
    return {"size": [height, width], "counts": np.diff(ends, prepend=0).tolist()}


def _surround(corners: list[list[float]]) -> list[float]:
    """Left, top, right and bottom of what is around corners; they may be none."""
    if not corners:
        return [0.0, 0.0, 0.0, 0.0]  # Refused as a box without an area.
    x, y = zip(*corners, strict=True)
    return [min(x), min(y), max(x), max(y)]


def _read_size(content: dict[str, Any]) -> list[Any]:
    sides = [content.get("imageWidth"), content.get("imageHeight")]
    return sides if all(type(each) is int and 0 < each < 2**31 for each in sides) else []


LABELME = SourceKind(
    name="a folder of LabelMe",
    in_folder=functools.partial(holds, ending=".json", begins=_SHAPES),
    files=list_whole,
    rows=read_labelme,
)
