"""The resize of `resample`, to the same bits: two sparse matrices of SciPy.

In less than OpenCV takes for its `INTER_AREA`, and other Python threads run meanwhile.
"""

import functools

import cv2
import numpy as np
import scipy.sparse

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
