"""The views of one stored image, by OpenCV and SciPy: the same bits as serving's graph has."""

from collections.abc import Sequence

import cv2
import numpy as np

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.images.prepare import nearest_indices
from image_pipeline.components.views.fast_decode import decode_window, resize_floats
from image_pipeline.components.views.fast_resample import resample_window
from image_pipeline.components.views.options import ViewOptions, resized_size


def view_image(
    image: StoredImage, window: np.ndarray | None, view: ViewOptions, out: np.ndarray
) -> None:
    """Decodes what a view needs of a stored image, and makes it.

    Args:
      image: see `decode_image`.
      window: int [4], see `crop_and_resize`; None for the deterministic view.
      view: the input's size.
      out: `view.dtype` [view.height_px, view.width_px, view.channels], which gets the result.

    Raises:
      ValueError: if it cannot be decoded, or has another size than its record says.
    """
    needed = find_needed((image.height, image.width), window, view)
    pixels = decode_window(image, view.channels, needed)
    if needed is None:
        take_eval_view(pixels, view, out)
    else:
        _resize(pixels, out)


def find_needed(
    size: tuple[int, int], window: np.ndarray | None, view: ViewOptions
) -> Sequence[int] | None:
    """Which part of an image of this size its view is made of: a window; None for all of it."""
    if window is not None:
        return window.tolist()
    if resized_size(size, view) != size:
        return None
    return (*_corner(size, view), view.height_px, view.width_px)


def view_pixels(
    pixels: np.ndarray, window: np.ndarray | None, view: ViewOptions, out: np.ndarray
) -> None:
    """Makes the view that `view_image` makes of an image's decoded pixels."""
    if window is None:
        take_eval_view(pixels, view, out)
    else:
        crop_and_resize(pixels, window, out)


def crop_and_resize(pixels: np.ndarray, window: np.ndarray, out: np.ndarray) -> None:
    """Cuts a window out of an image, and resizes it bilinearly.

    Not antialiased: it takes a tenth of the time, and random crops of photos are seldom shrunk by
    much.

    Args:
      pixels: [height, width, channels] of any stored type.
      window: int [4]: top, left, height and width, in pixels, inside the image.
      out: `view.dtype` [height_px, width_px, channels], which gets the result.
    """
    top, left, height, width = window
    _resize(pixels[top : top + height, left : left + width], out)


def _resize(cropped: np.ndarray, out: np.ndarray) -> None:
    if cropped.shape == out.shape:
        out[...] = cropped
        return
    # Into `out` itself, as they are of one type: to copy the result would take an eighth longer.
    cropped = cropped.astype(out.dtype, copy=False)
    cv2.resize(cropped, (out.shape[1], out.shape[0]), dst=out, interpolation=cv2.INTER_LINEAR)


def view_mask(
    mask: np.ndarray, window: np.ndarray | None, view: ViewOptions, out: np.ndarray
) -> None:
    """Makes the view of a mask that its image has; each pixel gets its nearest one.

    Args:
      mask: uint8 [height, width, 1], class ids.
      window: int [4], see `crop_and_resize`; None for the deterministic view.
      view: the view's size.
      out: uint8 [view.height_px, view.width_px, 1], which gets the result.
    """
    if window is None:
        take_eval_mask_view(mask, view, out)
        return
    top, left, height, width = (int(each) for each in window)
    rows = top + nearest_indices(height, out.shape[0])
    columns = left + nearest_indices(width, out.shape[1])
    out[...] = mask[rows[:, None], columns]


def take_eval_mask_view(mask: np.ndarray, view: ViewOptions, out: np.ndarray) -> None:
    """Makes the view of a mask that `take_eval_view` makes of its image; as `eval_mask_view`."""
    size = resized_size(mask.shape[:2], view)
    target = (view.height_px, view.width_px)
    rows, columns = (
        nearest_indices(length, new)[(new - count) // 2 :][:count]
        for length, new, count in zip(mask.shape[:2], size, target, strict=True)
    )
    out[...] = mask[rows[:, None], columns]


def take_eval_view(pixels: np.ndarray, view: ViewOptions, out: np.ndarray) -> None:
    """Makes the deterministic view, the same bits as `views.graph.eval_view`.

    Where nothing is to be resized (stored by their shorter side, with the right `crop_fraction`)
    that is a cut. Images of floats are left to TensorFlow, whose sums are rounded.

    Args:
      pixels: [height, width, channels] of any stored type.
      view: the input's size.
      out: `view.dtype` [view.height_px, view.width_px, view.channels], which gets the result.
    """
    size = pixels.shape[:2]
    resized = resized_size(size, view)
    top, left = _corner(resized, view)
    if resized == size:
        out[...] = pixels[top : top + view.height_px, left : left + view.width_px]
    elif pixels.dtype == out.dtype == np.uint8:
        resample_window(pixels, resized, (top, left), out)
    else:
        out[...] = resize_floats(pixels, view)


def _corner(resized: tuple[int, int], view: ViewOptions) -> tuple[int, int]:
    """Where the deterministic view begins in an image that is resized for it."""
    return (resized[0] - view.height_px) // 2, (resized[1] - view.width_px) // 2
