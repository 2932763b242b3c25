"""A record's pictures side by side, in the size in which a sheet shows them."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from image_pipeline.preview.samples import RecordViews
from image_pipeline.show.overlays import draw_boxes, lay_over, show_values, take_shown_channels
from image_pipeline.show.words import count_names

# A view's longer side on a sheet: smaller views are magnified, greater ones shrunk.
_LEAST_PX, _MOST_PX = 128, 256
# Normalised pixels have mean 0 and standard deviation 1; few of them lie outside of ±2.5.
_MODEL_INPUT_RANGE = (-2.5, 2.5)


class Panel(NamedTuple):
    """A picture with its title and captions.

    Attributes:
      pixels: uint8 [height, width, 3], as shown.
      captions: lines below it.
    """

    title: str
    pixels: np.ndarray
    captions: tuple[str, ...]


def make_panels(views: RecordViews) -> list[Panel]:
    """The pictures of `list_pictures` in one size, with boxes.

    A view of 128 to 256 pixels is shown pixel by pixel, a smaller one by whole pixels magnified.
    """
    height, width = box_size(views.eval.shape)
    panels = [
        each._replace(pixels=fit(each.pixels, height, width)) for each in list_pictures(views)
    ]
    # Names stand below as well, as a font lacks some letters; the model's input has no boxes.
    for number, boxes in enumerate(views.boxes or ()):
        title, pixels, captions = panels[number]
        captions = (*captions, count_names(boxes.names) or "no box")
        panels[number] = Panel(title, draw_boxes(pixels, boxes), captions)
    return panels


def list_pictures(views: RecordViews) -> list[Panel]:
    """Stored, eval, each epoch of training, and the model's input if there is one; without boxes.

    Their pixels, uint8 [height, width, 1 or 3], are the views' own unless masks lie over them, or
    they are not of 8-bit gray or RGB.
    """
    shown = [show_values(each) for each in (views.stored, views.eval, *views.train)]
    if views.masks is not None and views.mask_colors is not None:
        stored, evaluated, trained = views.masks
        masks = (stored, evaluated, *trained)
        shown = [lay_over(*each, views.mask_colors) for each in zip(shown, masks, strict=True)]
    panels = [
        Panel(name, pixels, (f"{pixels.shape[1]}×{pixels.shape[0]}",))
        for name, pixels in zip(("stored", "eval"), shown, strict=False)
    ]
    for epoch, (pixels, shares) in enumerate(zip(shown[2:], views.shares, strict=True)):
        mixed = tuple(f"{share:.2f} × {name}" for name, share in shares.items())
        panels.append(Panel(f"train, epoch {epoch}", pixels, mixed if len(mixed) > 1 else ()))
    if views.model_input is not None:
        shown_channels = take_shown_channels(views.model_input)
        pixels = np.round(scale_to_display(shown_channels) * 255).astype(np.uint8)
        panels.append(Panel("model's input", pixels, ("mid-grey: the mean",)))
    return panels


def box_size(shape: Sequence[int]) -> tuple[int, int]:
    """Height and width in which a view of this shape [height, width, ...] is shown."""
    height, width = shape[:2]
    longer = max(height, width)
    if longer > _MOST_PX:
        return max(1, height * _MOST_PX // longer), max(1, width * _MOST_PX // longer)
    times = -(-_LEAST_PX // longer)
    return height * times, width * times


def fit(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Scales an image to fit a box: magnified by whole pixels, or shrunk smoothly.

    Returns:
      uint8 [at most height, at most width, 3].
    """
    image = image.repeat(3, axis=2) if image.shape[2] == 1 else image
    scale = min(height / image.shape[0], width / image.shape[1])
    if scale >= 1:
        return image.repeat(int(scale), axis=0).repeat(int(scale), axis=1)
    size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def scale_to_display(pixels: np.ndarray) -> np.ndarray:
    """Scales normalised pixels so that the data set's mean is mid-grey.

    Args:
      pixels: float32 [height, width, channels], mean 0 and standard deviation 1.

    Returns:
      float32 [height, width, channels] from 0 to 1; what lies outside ±2.5 is clipped.
    """
    least, most = _MODEL_INPUT_RANGE
    return np.clip((pixels - least) / (most - least), 0, 1)
