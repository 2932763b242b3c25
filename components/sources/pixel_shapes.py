"""Which shape an image likely has of which only the number of its values is known."""

import math

# Rows of fewer values than a square of so many pixels a side are features, and no images.
_LEAST_SIDE = 8


def guess_shape(values: int) -> tuple[int, int, int] | None:
    """Height, width and channels of a square, gray or in colours; None if it can be neither."""
    for channels in (1, 3):
        side = math.isqrt(values // channels)
        if side >= _LEAST_SIDE and channels * side**2 == values:
            return side, side, channels
    return None
