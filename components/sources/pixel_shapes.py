"""The shape of images that are values alone: which it likely is, and that another is stated."""

import math
from collections.abc import Sequence

# Rows of fewer values than a square of so many pixels a side are features, and no images.
_LEAST_SIDE = 8


def guess_shape(values: int) -> tuple[int, int, int] | None:
    """Height, width and channels of a square, gray or in colours; None if it can be neither."""
    for channels in (1, 3):
        side = math.isqrt(values // channels)
        if side >= _LEAST_SIDE and channels * side**2 == values:
            return side, side, channels
    return None


def explain_misfit(has: str, shape: Sequence[int]) -> str:
    """That an image has other values than the shape that is stated; `has` is which."""
    stated = f"ingest.pixel_shape={list(shape)}"
    return f"it has {has}, but {stated} are {math.prod(shape):,} values"
