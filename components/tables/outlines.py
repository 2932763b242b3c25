"""Masks of objects' outlines: COCO's polygons and run lengths, drawn where the mask is read.

Their form is `segmentation` of https://cocodataset.org/#format-data, 1. Object Detection: a list of
polygons, or `counts` of pixels, column by column, by turns without and with the object; as numbers,
or packed to text. COCO's own code computes what a polygon covers.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.header import check_size
from image_pipeline.components.images.mask_file import BAD_MASK
from image_pipeline.components.images.options import PrepareOptions
from image_pipeline.components.messages import show
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import EmbeddedImage, Location
from image_pipeline.components.tables.drawn_masks import NO_SEGMENT, OUTLINES, size_of

COLUMN = "segmentation"
"""The column of such masks; `ingest.columns={mask: segmentation}` asks for them."""
BACKGROUND = "background"
"""The class of pixels that no object has; an object may be of it, too."""

_MOST_BYTES = 2**24  # of a mask, once it is drawn
MOST_PIXELS = 178_956_970  # of a mask; the default of `max_pixels`
# Around a polygon: a hundred times what a large photo's has; COCO's code holds 100 bytes for each.
_MOST_AROUND_PX = 2**20
_PACKED = re.compile(r"(?:[P-o]{0,6}[0-O])*")
_PACKED_NUMBER = re.compile(r"[P-o]*[0-O]")


def asks_for_outlines(columns: Mapping[str, str | None]) -> bool:
    """Whether masks of outlines are asked for, where boxes may be meant."""
    return columns.get("mask") == COLUMN


def refer_to_outlines(
    path: str,
    size: Sequence[float],
    objects: Iterable[tuple[int | None, str, str]],
    classes: Mapping[str, Sequence[int]],
    modified_ns: int,
    image: str = "",
) -> EmbeddedImage:
    """A mask of objects.

    Args:
      path: of the file that has the outlines.
      size: width and height of the image that they are of; empty if it is not stated.
      objects: of each the level that it is drawn with, None if it has no class; its outline as
        JSON; and what a message calls it. Where objects overlap, the smaller one is on top, of
        equal ones the later.
      classes: the levels of each class, for `drawn_classes`; none if another mask tells them.
      modified_ns: when the file was changed.
      image: the path of the image, whose size counts where the file does not say it.
    """
    drawing = json.dumps([classes, list(size) or image, list(objects)])
    most_bytes = min(_MOST_BYTES, 2**12 + 3 * int(np.prod(size))) if size else _MOST_BYTES
    return EmbeddedImage(Location(path, OUTLINES, 0, 1, drawing), most_bytes, modified_ns)


def read_outlines(ref: ImageRef, most_bytes: int) -> bytes:
    """The PNG of a mask of outlines; raises BadImage if one is invalid, or not of its image."""
    assert ref.location is not None
    _, size, objects = json.loads(ref.location.inside)
    if not size:
        raise BadImage(
            BAD_MASK,
            f"cannot be drawn: {ref.location.file} states no width and height of its image",
        )
    width, height = size_of(size) if isinstance(size, str) else map(round, size)
    check_size(height, width, PrepareOptions(max_pixels=MOST_PIXELS))
    drawn: list[tuple[int, list[int]]] = []
    for level, outline, called in objects:
        try:
            if level is None:
                raise ValueError("of a category that is not listed")
            drawn.append((level, _count_runs(json.loads(outline), width, height)))
        except ValueError as error:
            raise BadImage(BAD_MASK, f"has {called}, {error}") from error
    drawn.sort(key=lambda each: -sum(each[1][1::2]))
    mask = np.full(width * height, NO_SEGMENT, np.uint16)
    for level, counts in drawn:
        ends = np.cumsum(counts, dtype=np.int64).tolist()
        for start, end in zip(ends[::2], ends[1::2], strict=False):
            mask[start:end] = level
    pixels = np.ascontiguousarray(mask.reshape(width, height).T)
    return cv2.imencode(".png", pixels)[1].tobytes()[:most_bytes]


def _count_runs(outline: Any, width: int, height: int) -> list[int]:
    """The lengths of an outline's runs, column by column, by turns without and with the object.

    Raises:
      ValueError: if it does not fit an image of this size; the message goes on after its name.
    """
    if not outline:
        raise ValueError("of which there is no outline")
    if not isinstance(outline, Mapping):
        return _count_runs_of_polygons(outline, width, height)
    if outline.get("size") != [height, width]:
        raise ValueError(
            f"of an image of height and width {show(outline.get('size'))}, where its own are "
            f"[{height}, {width}]"
        )
    counts: Any = outline.get("counts")
    counts = _unpack(counts) if isinstance(counts, str) else counts
    # COCO's code would leave what they do not reach as it was in memory.
    are_counts = isinstance(counts, list) and all(type(c) is int and c >= 0 for c in counts)
    if not are_counts or sum(counts) != width * height:
        found = f"{sum(counts):,}" if are_counts else "none"
        raise ValueError(
            f"whose counts must be run lengths of {width * height:,} pixels in all, and are {found}"
        )
    return counts


def _unpack(text: str) -> list[int]:
    """Run lengths from COCO's text: 5 bits a character, each number less the second before it.

    After `rleFrString` of https://github.com/cocodataset/cocoapi/blob/master/common/maskApi.c.
    """
    if not _PACKED.fullmatch(text):
        raise ValueError(f"whose counts are not packed run lengths, {show(text)}")
    counts: list[int] = []
    for digits in _PACKED_NUMBER.findall(text):
        number = sum(((ord(digit) - 48) & 31) << (5 * at) for at, digit in enumerate(digits))
        if ord(digits[-1]) - 48 & 16:  # Negative.
            number -= 1 << (5 * len(digits))
        counts.append(number + (counts[-2] if len(counts) > 2 else 0))
    return counts


def _count_runs_of_polygons(polygons: Any, width: int, height: int) -> list[int]:
    from pycocotools import mask as coco  # Of an extra.

    if not isinstance(polygons, list):
        raise ValueError(f"of the outline {show(polygons)}, which is not a list of polygons")
    corners = [_read_polygon(each) for each in polygons]
    x, y = np.concatenate(corners).T
    if x.max() <= 0 or y.max() <= 0 or x.min() >= width or y.min() >= height:
        raise ValueError(f"which lies outside of {width} x {height} pixels")
    encoded = coco.merge(
        coco.frPyObjects([each.ravel().tolist() for each in corners], height, width)
    )
    return _unpack(encoded["counts"].decode())


def _read_polygon(polygon: Any) -> np.ndarray:
    """The corners of a polygon, float64 [corners, 2]."""
    try:
        numbers = np.asarray(polygon, np.float64).ravel()
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"of the polygon {show(polygon)}, which is not a list of numbers"
        raise ValueError(problem) from error
    if len(numbers) < 6 or len(numbers) % 2:
        raise ValueError(
            f"of a polygon of {len(numbers)} numbers, where three corners or more have two each"
        )
    corners = numbers.reshape(-1, 2)
    around = np.abs(corners - np.roll(corners, 1, 0)).max(1).sum()
    if not around <= _MOST_AROUND_PX:  # NaN is not, either.
        raise ValueError(f"of a polygon of more than {_MOST_AROUND_PX:,} pixels around")
    return corners
