"""Exact sums over the pixels of images of 8 bits: what means and variances are made of.

OpenCV sums in vector instructions, and lets other Python threads run meanwhile: 0.02 ms for
224 x 224 pixels in colour, where TensorFlow takes 1 ms for larger integers of all of them.
"""

import threading
from collections.abc import Sequence

import cv2
import numpy as np


def sums_length(channels: int) -> int:
    """How many numbers `PixelSums.sum` gives for an image."""
    return 1 + 2 * channels


class PixelSums:
    """Sums the pixels of images of one size. Threads may share it.

    Each thread keeps the memory for one image: to take new memory costs more than the sums.
    """

    def __init__(self, height_px: int, width_px: int, channels: int):
        """Sums images uint8 [height_px, width_px, channels]."""
        self._shape = (channels, height_px, width_px)
        self._own = threading.local()

    def sum(self, image: np.ndarray) -> np.ndarray:
        """Sums the pixels and their squares.

        OpenCV adds integers and gives float64. Of squares it takes the root, and squares that:
        what this loses, less than 2^-51 of the value, is less than a half up to 10^10 pixels.

        Args:
          image: uint8 [height_px, width_px, channels].

        Returns:
          int64 [1 + 2 * channels]: the number of pixels, each channel's sum, and each channel's sum
          of squares.
        """
        planes = self._split(image)
        totals = [cv2.sumElems(plane)[0] for plane in planes]
        squares = [cv2.norm(plane, cv2.NORM_L2SQR) for plane in planes]
        return np.array([planes[0].size, *map(round, totals), *map(round, squares)], np.int64)

    def _split(self, image: np.ndarray) -> Sequence[np.ndarray]:
        """The channels one after the other, each uint8 [height_px, width_px]."""
        if not hasattr(self._own, "planes"):
            self._own.planes = list(np.empty(self._shape, np.uint8))
        return cv2.split(image, self._own.planes)
