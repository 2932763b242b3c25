"""The views of one stored image, by OpenCV and SciPy: the same bits as serving's graph has."""

import functools
from collections.abc import Sequence

import cv2
import numpy as np
import scipy.sparse

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.images.prepare import nearest_indices
from image_pipeline.components.views.fast_decode import decode_window, resize_floats
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


WEIGHT_ONE = 2**13
BETWEEN = 8
# Pixels become floats in strips that fit into a core's cache.
_STRIP_BYTES = 2**21
# Matrices that are kept: photos are of few sizes. One of 224 pixels takes some 10 kB.
_HELD_MATRICES = 512


def resample_window(
    image: np.ndarray, size: tuple[int, int], offset: tuple[int, int], out: np.ndarray
) -> None:
    """Resizes an image, antialiased, and cuts out a window, whose pixels alone are computed.

    By two sparse matrices, to the bits of `resample`, in less than OpenCV takes for its
    `INTER_AREA`; other Python threads run meanwhile.

    Args:
      image: uint8 [height, width, channels].
      size: height and width of the resized image, in pixels.
      offset: top and left of the window in it; it must lie inside.
      out: uint8 [rows, columns, channels], which gets the window.
    """
    rows, columns, channels = out.shape
    top, down = make_matrix(image.shape[0], size[0], offset[0], rows, BETWEEN)
    left, across = make_matrix(image.shape[1], size[1], offset[1], columns, 1 / BETWEEN)
    height, breadth = down.shape[1], across.shape[1]
    needed = image[top : top + height, left : left + breadth]
    turned = np.empty((breadth, rows, channels), np.float32)
    step = max(1, _STRIP_BYTES // (4 * height * channels))
    for start in range(0, breadth, step):
        lines = needed[:, start : start + step].astype(np.float32).reshape(height, -1)
        averages = down @ lines
        np.rint(averages, out=averages)
        turned[start : start + step] = _turn(averages.reshape(rows, -1, channels))
    averages = across @ turned.reshape(breadth, -1)
    np.rint(averages, out=averages)
    out[...] = _turn(averages.astype(np.uint8).reshape(columns, rows, channels))


def _turn(image: np.ndarray) -> np.ndarray:
    """[height, width, channels] to [width, height, channels]."""
    height, width, channels = image.shape
    if channels > 4:  # More than OpenCV turns.
        return image.transpose(1, 0, 2)
    return cv2.transpose(image).reshape(width, height, channels)


@functools.lru_cache(_HELD_MATRICES)
def make_matrix(
    side: int, resized: int, offset: int, count: int, unit: float
) -> tuple[int, scipy.sparse.csr_matrix]:
    """The weighted means that make a window's pixels along one side; `resample` says of what.

    Args:
      side: the image's length in pixels.
      resized: that of the resized image.
      offset: where in that the window begins.
      count: its length.
      unit: a power of two, by which all weights are multiplied.

    Returns:
      The first pixel that is needed, and float32 [count, pixels] from that pixel on.
    """
    reach = 2 * max(side, resized)
    middles = (2 * (offset + np.arange(count)) + 1) * side
    first = (middles - reach - resized) // (2 * resized) + 1
    places = first[:, None] + np.arange((reach + resized - 1) // resized)
    distances = np.abs((2 * places + 1) * resized - middles[:, None])
    heights = np.maximum(reach - distances, 0) * ((places >= 0) & (places < side))
    total = heights.sum(axis=1, keepdims=True)
    sums = (2 * WEIGHT_ONE * heights.cumsum(axis=1) + total) // (2 * total)
    weights = (np.diff(sums, prepend=0) * (unit / WEIGHT_ONE)).astype(np.float32)
    places = np.clip(places, 0, side - 1)
    start, ends = int(places[0, 0]), np.arange(count + 1) * places.shape[1]
    shape = (count, int(places[-1, -1]) - start + 1)
    return start, scipy.sparse.csr_matrix(
        (weights.ravel(), (places - start).ravel(), ends), shape=shape
    )
