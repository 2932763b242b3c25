"""Which images are unlike all others, by the distance to those they are nearest to.

S. Ramaswamy, R. Rastogi, K. Shim, "Efficient Algorithms for Mining Outliers from Large Data Sets"
(SIGMOD 2000); the bound is that of J. W. Tukey, "Exploratory Data Analysis" (1977), for values that
are "far out".
"""

import dataclasses

import numpy as np
import threadpoolctl
from sklearn.neighbors import NearestNeighbors

NEIGHBOURS = 5
_FAR_OUT = 3  # times the distance between the quartiles, above the upper one


@dataclasses.dataclass(frozen=True)
class Outlier:
    """An image that is unlike all others.

    Attributes:
      row: its row among those given.
      times: how many times as far it is from those it is nearest to as images usually are.
    """

    row: int
    times: float


def find_outliers(vectors: np.ndarray) -> list[Outlier]:
    """Finds the rows that are far from all others, the farthest first.

    A row's distance is the mean of its Euclidean distances to its five nearest others. Rows are
    found whose distance is above the upper quartile by more than three times the distance between
    the quartiles. All pairs are compared: 10,000 rows of 64 numbers take about 3 s of CPU.

    Args:
      vectors: float [n, any], what is known of each image.

    Returns:
      None of fewer than twice as many rows as neighbours, or if most rows are the same.
    """
    if len(vectors) < 2 * NEIGHBOURS:
        return []
    distances = measure_distances(vectors)
    low, usual, high = np.quantile(distances, (0.25, 0.5, 0.75))
    if usual <= 0:
        return []
    found = np.flatnonzero(distances > high + _FAR_OUT * (high - low))
    order = found[np.argsort(-distances[found], kind="stable")]
    return [Outlier(row, round(float(distances[row] / usual), 2)) for row in order.tolist()]


def measure_distances(vectors: np.ndarray) -> np.ndarray:
    """Each row's mean distance to its five nearest others: float64 [n]."""
    model = NearestNeighbors(n_neighbors=NEIGHBOURS, algorithm="brute")
    # Threads would add up in another order on another machine.
    with threadpoolctl.threadpool_limits(1):
        distances, _ = model.fit(vectors.astype(np.float64)).kneighbors()
    return distances.mean(axis=1)
