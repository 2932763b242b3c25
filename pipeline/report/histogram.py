"""How values are distributed: counts in equal steps, with minimum, median and maximum."""

import dataclasses

import numpy as np

BINS = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counted values.

    Attributes:
      count: how many there are.
      min, median, max: of the values.
      edges: edges of the steps, one more than there are steps.
      counts: number of values in each step; one step if all are equal.
      logarithmic: whether each step is a ratio.
    """

    count: int
    min: float
    median: float
    max: float
    edges: list[float]
    counts: list[int]
    logarithmic: bool


def make_histogram(
    values: np.ndarray, bins: int = BINS, logarithmic: bool = False
) -> Histogram | None:
    """Counts values.

    Args:
      values: numbers [n].
      bins: number of steps between the least and the greatest value.
      logarithmic: whether each step is a ratio; then all values must be over 0.

    Returns:
      None if there are no values.
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
    return Histogram(
        count=len(values),
        min=least,
        median=float(np.median(values)),
        max=greatest,
        edges=edges.tolist(),
        counts=counts.tolist(),
        logarithmic=logarithmic,
    )
