"""How values are distributed: counts in equal steps, beside the least, the middle and the most."""

from typing import Any

import numpy as np

BINS = 32


def make_histogram(values: np.ndarray, bins: int = BINS, logarithmic: bool = False) -> Any:
    """Counts values.

    Args:
      values: numbers [n].
      bins: how many steps there are between the least and the greatest value.
      logarithmic: whether each step is a ratio; then all values must be over 0.

    Returns:
      `count`, `min`, `median`, `max`, `edges` (bins + 1) and `counts` (bins); of equal values one
      bin. None if there are no values.
    """
    if not len(values):
        return None
    least, greatest = float(values.min()), float(values.max())
    if least == greatest:
        edges = np.array([least, greatest])
        counts = np.array([len(values)])
    else:
        space = np.geomspace if logarithmic else np.linspace
        edges = space(least, greatest, bins + 1)
        edges[0], edges[-1] = least, greatest  # Rounded, they could leave out the extremes.
        counts = np.histogram(values, edges)[0]
    return {
        "count": len(values),
        "min": least,
        "median": float(np.median(values)),
        "max": greatest,
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "logarithmic": logarithmic,
    }
