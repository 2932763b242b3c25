"""Stored images as people are shown them: 8-bit gray or RGB, under their masks and boxes."""

import colorsys
import functools
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from image_pipeline.components.dataset.record import IGNORED

_SHARE = 0.55  # of a mask's colour; the rest is the image's
_POINTS = 10
# On smaller pictures, names would hide what is in the boxes.
_NAMED_SIDE_PX = 120
_GOLDEN = 0.618034  # Hues at this distance differ however many there are.


class NamedBoxes(NamedTuple):
    """The boxes of an image.

    Attributes:
      places: float [boxes, 4]: top, left, bottom and right, as shares of the image's sides.
      ids: the classes' ids, from 0 on.
    """

    places: np.ndarray
    ids: tuple[int, ...]
    names: tuple[str, ...]

    @classmethod
    def of_record(
        cls, sides: Any, ids: Iterable[int], names: Iterable[str], crowds: Iterable[int]
    ) -> "NamedBoxes":
        """The boxes as a record has them; names say of which boxes `crowds` is not 0.

        Args:
          sides: [4, boxes]: top, left, bottom and right, as shares of the image's sides.
          ids: the classes' ids, from 1 on.
          names: the classes' names.
          crowds: whether each box is around several objects.
        """
        places = np.array(sides, np.float32).reshape(4, -1).T
        pairs = zip(names, crowds, strict=True)
        named = tuple(f"{name} (crowd)" if crowd else name for name, crowd in pairs)
        return cls(places, tuple(id_ - 1 for id_ in ids), named)


def show_values(pixels: np.ndarray) -> np.ndarray:
    """Makes a picture of an image's first three channels (of one or two, the first).

    Args:
      pixels: [height, width, channels], of any type; uint8 is shown as it is, others from the least
        value as black to the greatest as white.

    Returns:
      uint8 [height, width, 1 or 3].
    """
    shown = take_shown_channels(pixels)
    if shown.dtype == np.uint8:
        return shown
    values = shown.astype(np.float64)
    least, most = values.min(), values.max()
    return np.round((values - least) * (255 / ((most - least) or 1))).astype(np.uint8)


def shrink(pixels: np.ndarray, side_px: int) -> np.ndarray:
    """Shrinks an image to a longer side of `side_px`, by area; a smaller one is left as it is.

    Args:
      pixels: uint8 [height, width, channels].
      side_px: length of the longer side, in pixels.

    Returns:
      uint8 [new_height, new_width, channels].
    """
    height, width = pixels.shape[:2]
    scale = side_px / max(height, width)
    if scale >= 1:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    resized = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return resized.reshape(*resized.shape[:2], pixels.shape[2])


def take_shown_channels(pixels: np.ndarray) -> np.ndarray:
    """The channels that a picture shows: [..., 1 or 3]."""
    return pixels[..., : 3 if pixels.shape[-1] >= 3 else 1]


def make_colors(options: Mapping[str, Any] | None = None) -> np.ndarray:
    """A colour for each id of masks, uint8 [256, 3]: its own, where masks were given by colours.

    Args:
      options: `ingest.masks`, as a manifest has it; None for the usual colours.
    """
    # Pascal VOC's colour map: neighbouring ids get colours that differ much.
    numbers, colors = np.arange(1, 257), np.zeros((256, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            colors[:, channel] |= ((numbers >> 3 * bit + channel & 1) << 7 - bit).astype(np.uint8)
    classes = (options or {}).get("classes")
    for number, value in enumerate(classes.values() if isinstance(classes, dict) else ()):
        first = value[0] if isinstance(value, list) else value
        if isinstance(first, str):
            colors[number] = list(bytes.fromhex(first[1:]))
    return colors


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


def draw_boxes(pixels: np.ndarray, boxes: NamedBoxes) -> np.ndarray:
    """Draws an image's boxes, each class in a colour of its own, the smallest last.

    Args:
      pixels: uint8 [height, width, 1 or 3].
      boxes: the image's. Names are written unless the picture is small.

    Returns:
      uint8 [height, width, 3].
    """
    rgb = pixels.repeat(3, axis=2) if pixels.shape[2] == 1 else pixels
    picture = Image.fromarray(np.ascontiguousarray(rgb))
    draw = ImageDraw.Draw(picture)
    is_named = max(picture.size) >= _NAMED_SIDE_PX
    areas = np.prod(boxes.places[:, 2:] - boxes.places[:, :2], axis=1)
    drawn = [
        (_corners(boxes.places[number], picture.size), color_of(boxes.ids[number]), number)
        for number in np.argsort(-areas, kind="stable").tolist()
    ]
    for corners, color, number in drawn if is_named else ():
        _write(draw, corners, boxes.names[number], color)
    for corners, color, _ in drawn:  # Over all names, which would hide small boxes.
        draw.rectangle(corners, outline=color, width=2 if is_named else 1)
    return np.asarray(picture)


def color_of(number: int) -> tuple[int, int, int]:
    """The colour of a class by its id, from 0 on."""
    red, green, blue = colorsys.hsv_to_rgb(number * _GOLDEN % 1, 0.8, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)


def _corners(box: np.ndarray, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The outermost pixels of a box: left, top, right, bottom."""
    width, height = size
    top, left, bottom, right = box.tolist()
    x0, y0 = (min(round(share * side), side - 1) for share, side in ((left, width), (top, height)))
    x1 = max(x0, min(round(right * width), width) - 1)
    return x0, y0, x1, max(y0, min(round(bottom * height), height) - 1)


def _write(
    draw: ImageDraw.ImageDraw,
    corners: tuple[int, int, int, int],
    name: str,
    color: tuple[int, int, int],
) -> None:
    """Writes a name on its colour above its box, or where there is no room, inside of it."""
    x, top = corners[:2]
    left, upper, right, lower = draw.textbbox((0, 0), name, _font())
    y = max(0, top - (lower - upper) - 2)
    x = max(0, min(x, int(draw.im.size[0] - (right - left)) - 3))
    draw.rectangle((x, y, x + right - left + 2, y + lower - upper + 2), fill=color)
    draw.text((x + 1 - left, y + 1 - upper), name, (0, 0, 0), _font())


@functools.cache
def _font() -> ImageFont.FreeTypeFont:
    """The font of the sheets."""
    import matplotlib as mpl

    path = os.path.join(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    return ImageFont.truetype(path, _POINTS)
