"""A line through what was measured at several sizes: the cost of an image, and the fixed cost."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Line:
    """Seconds as a function of images.

    Attributes:
      slope: seconds an image.
      fixed: seconds of no images.
      worst: the largest relative error of the line at the sizes that were measured.
    """

    slope: float
    fixed: float
    worst: float

    def at(self, images: float, workers: int = 1) -> float:
        """Seconds of so many images, the images shared evenly by workers, the fixed cost not."""
        return self.fixed + self.slope * images / workers


def fit_line(rounds: Sequence[dict[str, Any]], name: str) -> Line:
    """Fits a line by least squares of relative errors.

    Args:
      rounds: each has `images` and the value.
      name: the value's: "wall_s" or "cpu_s".
    """
    images = np.array([entry["images"] for entry in rounds], np.float64)
    seconds = np.array([entry[name] for entry in rounds], np.float64)
    design = np.stack([images, np.ones_like(images)], axis=1) / seconds[:, None]
    (slope, fixed), *_ = np.linalg.lstsq(design, np.ones_like(seconds), rcond=None)
    worst = np.abs((fixed + slope * images) / seconds - 1).max()
    return Line(float(slope), float(fixed), float(worst))
