"""Pictures as a browser gets them: a content type and bytes."""

import io
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.stored import IMAGE_KEYS, take_image
from image_pipeline.components.feeding.random_access import decode
from image_pipeline.show.shown_values import show_values

_THUMBNAIL_PX = 224
_QUALITY = 88


class Picture(NamedTuple):
    """What a browser shows: `content_type`, such as image/png, and the file's `content`."""

    content_type: str
    content: bytes


def make_png(pixels: np.ndarray) -> Picture:
    """A picture with exactly these pixels, uint8 [height, width, 1 or 3]."""
    return _encode(pixels, "png", compress_level=1)


def make_thumbnail(pixels: np.ndarray) -> Picture:
    """A picture of at most 224 pixels a side, of uint8 [height, width, 1 or 3].

    A smaller one keeps its pixels.
    """
    longer = max(pixels.shape[:2])
    if longer <= _THUMBNAIL_PX:
        return make_png(pixels)
    height, width = (max(1, side * _THUMBNAIL_PX // longer) for side in pixels.shape[:2])
    small = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    return _encode(small.reshape(height, width, -1), "jpeg", quality=_QUALITY)


def decode_stored(serialized: bytes) -> np.ndarray:
    """The image of a record as it is shown, without TensorFlow.

    Args:
      serialized: a tf.train.Example.

    Returns:
      uint8 [height, width, 1 or 3]: the stored pixels, or of other types and channels what
      `show_values` makes of them.

    Raises:
      ValueError: if it cannot be decoded.
      UserError: if it lies in another file that cannot be read.
    """
    columns = {column.key: column for column in record.COLUMNS}
    features = {key: record.read_feature(serialized, columns[key]) for key in IMAGE_KEYS}
    return show_values(decode(fetch(take_image(features))))


def _encode(pixels: np.ndarray, kind: str, **options: int) -> Picture:
    file = io.BytesIO()
    shown = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    Image.fromarray(np.ascontiguousarray(shown)).save(file, kind.upper(), **options)
    return Picture(f"image/{kind}", file.getvalue())
