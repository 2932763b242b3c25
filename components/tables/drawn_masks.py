"""Masks that no file holds: rows say which pixels are of which class, and the mask is drawn of it.

A reference to such a mask holds its annotations, not pixels; these are drawn where it is read.
"""

import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from PIL import Image

from image_pipeline.components import files
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.mask_file import BAD_MASK
from image_pipeline.components.messages import show
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import EmbeddedImage, Location, TableError

RUN_LENGTHS, SEGMENTS, OUTLINES = "run_lengths", "segments", "outlines"
NO_SEGMENT = 65_535
"""The level of pixels without a segment or object; others have their category's id."""
IGNORE = "__ignore__"
"""LabelMe's name for what has no class."""
_HEAD_BYTES = 2**18  # of an image, for its size
_MOST_BYTES = 2**24  # of a mask, once it is drawn


def refer_to_runs(image: str, runs: Sequence[tuple[int, str]]) -> EmbeddedImage:
    """A mask of run lengths.

    Args:
      image: the path of its image, whose size it has.
      runs: a class's id and its runs, as `1 3 41 5`: pixels counted from 1, column by column, each
        with how many follow, itself included.
    """
    return EmbeddedImage(Location(image, RUN_LENGTHS, 0, 1, json.dumps(runs)), _MOST_BYTES)


def read_runs(ref: ImageRef, most_bytes: int) -> bytes:
    """The PNG of a mask of run lengths; raises BadImage if they are none of its image."""
    assert ref.location is not None
    width, height = size_of(ref.location.file)
    mask = np.zeros(width * height, np.uint8)
    for class_id, text in json.loads(ref.location.inside):
        starts, lengths = _parse(text)
        for start, length in zip(starts, lengths, strict=True):
            if start < 1 or length < 0 or start - 1 + length > len(mask):
                size = f"{width} x {height}"
                raise BadImage(BAD_MASK, f"has the run {start} {length}, outside of {size} pixels")
            mask[start - 1 : start - 1 + length] = class_id
    pixels = np.ascontiguousarray(mask.reshape(width, height).T)
    return cv2.imencode(".png", pixels)[1].tobytes()[:most_bytes]


def refer_to_segments(
    path: str, segments: Mapping[int, int], classes: Mapping[str, Sequence[int]], modified_ns: int
) -> EmbeddedImage:
    """A mask of COCO's panoptic segments, each pixel's as a colour of a PNG.

    Args:
      path: of the PNG, whose red + 256 green + 65536 blue is a segment's id; 0 for no segment.
      segments: the level that each segment's id is drawn with.
      classes: the levels of each class, for `drawn_classes`; none if another mask tells them.
      modified_ns: when the PNG was changed.
    """
    drawing = json.dumps([classes, list(segments.items())])
    return EmbeddedImage(Location(path, SEGMENTS, 0, 1, drawing), _MOST_BYTES, modified_ns)


def drawn_classes(cell: Any) -> dict[str, tuple[int, ...]] | None:
    """The levels of each class of masks by segments or outlines; none if another mask tells them.

    None of any other cell.
    """
    if not isinstance(cell, EmbeddedImage) or cell.location.kind not in (SEGMENTS, OUTLINES):
        return None
    # The first element alone: outlines are long.
    classes, _ = json.JSONDecoder().raw_decode(cell.location.inside, 1)
    return {name: tuple(levels) for name, levels in classes.items()}


def list_levels(names: Mapping[Any, str]) -> dict[str, list[int]]:
    """The ids of each category's name, which are the levels that it is drawn with.

    Raises:
      TableError: if an id can be no level.
    """
    classes: dict[str, list[int]] = {}
    for id_, name in names.items():
        if not isinstance(id_, int) or not 0 <= id_ < NO_SEGMENT:
            which = f"{show(id_)}, of {show(name)}"
            raise TableError(
                1, f"ids of categories must be whole numbers below {NO_SEGMENT:,}, got {which}."
            )
        classes.setdefault(name, []).append(id_)
    return classes


def find_time(path: str) -> int:
    """When a local file was changed; 0 of any other, and of one that is not there."""
    try:
        return os.stat(path).st_mtime_ns if files.is_local(path) else 0
    except (OSError, ValueError):
        return 0


def read_segments(ref: ImageRef, most_bytes: int) -> bytes:
    """The PNG of a mask by segments; raises BadImage if a colour is not one of its segments."""
    assert ref.location is not None
    data = np.frombuffer(files.read_file(ref.location.file, 0, most_bytes), np.uint8)
    colors = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if len(data) else None
    if colors is None or colors.dtype != np.uint8 or colors.ndim != 3 or colors.shape[2] != 3:
        raise BadImage(
            BAD_MASK, f"{ref.location.file} is not an RGB PNG of 8 bits, as segments are"
        )
    blue, green, red = (colors[:, :, channel].astype(np.int32) for channel in range(3))
    ids, places = np.unique(red + 256 * green + 65536 * blue, return_inverse=True)
    levels = {0: NO_SEGMENT, **dict(json.loads(ref.location.inside)[1])}
    if unknown := [id_ for id_ in ids.tolist() if id_ not in levels]:
        raise BadImage(
            BAD_MASK, f"has the segment {unknown[0]}, which its annotation does not list"
        )
    drawn = np.array([levels[id_] for id_ in ids.tolist()], np.uint16)
    pixels = drawn[places].reshape(colors.shape[:2])
    return cv2.imencode(".png", pixels)[1].tobytes()[:most_bytes]


def _parse(text: str) -> tuple[list[int], list[int]]:
    try:
        numbers = list(map(int, text.split()))
    except ValueError as error:
        raise BadImage(BAD_MASK, f"has runs that are not whole numbers ({error})") from error
    if len(numbers) % 2:
        raise BadImage(BAD_MASK, f"has {len(numbers)} numbers, where each run has two")
    if not ascend(text):
        raise BadImage(BAD_MASK, "has runs that begin before the ones before them have ended")
    return numbers[::2], numbers[1::2]


def size_of(path: str) -> tuple[int, int]:
    """Width and height of an image's file, as it is stored; raises BadImage if it has none."""
    data = files.read_file(path, 0, _HEAD_BYTES)
    try:
        with Image.open(io.BytesIO(data)) as opened:
            return opened.size
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadImage(
            BAD_MASK, f"cannot be drawn, since its image has no size ({error})"
        ) from error


def is_runs(cell: Any) -> bool:
    """Whether a cell may be run lengths: an even number of whole numbers, or nothing."""
    if not isinstance(cell, str):
        return cell is None
    if is_no_run(cell):
        return True
    parts = cell.split()
    return len(parts) % 2 == 0 and all(part.isdigit() for part in parts)


def is_no_run(cell: Any) -> bool:
    """Whether a cell says that there is no object: empty, or -1."""
    return cell is None or (isinstance(cell, str) and cell.strip() in ("", "-1"))


def ascend(cell: str) -> bool:
    """Whether no run begins before the one before it has ended, as starts do, and gaps do not."""
    numbers = list(map(int, cell.split()))
    starts, ends = numbers[2::2], map(sum, zip(numbers[::2], numbers[1::2], strict=False))
    return all(start >= end for start, end in zip(starts, ends, strict=False))
