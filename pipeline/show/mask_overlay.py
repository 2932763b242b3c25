"""Masks laid over their images, so that a wrong pair is seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from image_pipeline.components.dataset.record import IGNORED

_SHARE = 0.55  # of the class's colour; the rest is the image's
# Pascal VOC's colour map: neighbouring ids get colours that differ much.
_BITS = 8


def make_colors(options: Mapping[str, Any] | None = None) -> np.ndarray:
    """A colour for each id, uint8 [256, 3]: its own, where masks were given by colours.

    Args:
      options: `ingest.masks`, as a manifest has it; None for the usual colours.
    """
    colors = np.array([_voc_color(number + 1) for number in range(256)], np.uint8)
    classes = (options or {}).get("classes")
    for number, value in enumerate(classes.values() if isinstance(classes, dict) else ()):
        first = value[0] if isinstance(value, list) else value
        if isinstance(first, str):
            colors[number] = list(bytes.fromhex(first[1:]))
    return colors


def _voc_color(number: int) -> list[int]:
    color = [0, 0, 0]
    for bit in range(_BITS):
        for channel in range(3):
            color[channel] |= (number >> channel & 1) << (7 - bit)
        number >>= 3
    return color


def lay_over(pixels: np.ndarray, mask: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """Colours an image by its mask; pixels of no class stay as they are.

    Args:
      pixels: uint8 [height, width, 1 or 3].
      mask: uint8 [height, width, 1], class ids.
      colors: uint8 [256, 3], see `make_colors`.

    Returns:
      uint8 [height, width, 3].
    """
    rgb = pixels.repeat(3, axis=2) if pixels.shape[2] == 1 else pixels
    mixed = (1 - _SHARE) * rgb + _SHARE * colors[mask[..., 0]]
    return np.where(mask == IGNORED, rgb, np.round(mixed).astype(np.uint8))
