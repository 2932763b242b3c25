"""Masks that no file holds: rows say which pixels are of which class, and the mask is drawn of it.

A reference to such a mask has what is said, not pixels; these are drawn where it is read.
"""

import io
import json
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from PIL import Image

from image_pipeline.components import files
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.mask_file import BAD_MASK
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import EmbeddedImage, Location

RUN_LENGTHS = "run_lengths"
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
    width, height = _size_of(ref.location.file)
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


def _parse(text: str) -> tuple[list[int], list[int]]:
    try:
        numbers = list(map(int, text.split()))
    except ValueError as error:
        raise BadImage(BAD_MASK, f"has runs that are no whole numbers ({error})") from error
    if len(numbers) % 2:
        raise BadImage(BAD_MASK, f"has {len(numbers)} numbers, where each run has two")
    return numbers[::2], numbers[1::2]


def _size_of(path: str) -> tuple[int, int]:
    """Width and height of an image's file, as it is stored."""
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
    parts = cell.split()
    return len(parts) % 2 == 0 and all(part.isdigit() for part in parts)
