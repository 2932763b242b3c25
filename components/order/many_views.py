"""Several views of every image in an epoch, never two of them close together."""

import dataclasses
from collections.abc import Callable

import numpy as np

from image_pipeline.components.hashing import key_words, mix64
from image_pipeline.components.order.draws import Draws, Rows, check_rows, find_place, take_rows
from image_pipeline.components.order.permutation import check_positions, invert, permute


@dataclasses.dataclass(frozen=True, eq=False)
class ViewsOrder:
    """Every view of every row once an epoch, and never two views of one row close together.

    An epoch is `views` passes over the rows. It parts the rows at random into two halves; every
    pass shows first the one half and then the other, each in a new random order. So between two
    appearances of a row there is always the whole other half, whatever the two orders are.

    Which half a row belongs to and its place within the half in each pass are random and
    independent, from epoch to epoch too; that it stays in its half for an epoch is what the
    distance costs. (More, smaller parts give up more randomness for more distance, up to one fixed
    order of all rows repeated at a distance of n.) Which of its views a row shows in which pass is
    random and independent for every row, so that a batch holds views of all kinds.
    """

    rows: Rows
    seed: int
    views: int

    def __post_init__(self) -> None:
        check_rows(self.rows)
        if self.views < 1:
            raise ValueError(f"views must be at least 1, got {self.views}.")

    @property
    def length(self) -> int:
        """Draws an epoch: rows times views."""
        return len(self.rows) * self.views

    def min_distance(self) -> int:
        """The least distance in positions between two views of one row in an epoch.

        A batch up to this size never holds two views of one row, unless it is padded. With n rows
        the first half has h = ceil(n / 2). A row of it is at most at place h - 1 of its half and at
        least at place 0 in the next pass, n - (h - 1) = floor(n / 2) + 1 positions later. One view
        a row has no such pair: then it is the length.
        """
        return self.length if self.views == 1 else len(self.rows) // 2 + 1

    def draw(self, epoch: int, positions: np.ndarray) -> Draws:
        """As `Order.draw`."""
        check_positions(positions, self.length)
        count, key = len(self.rows), (self.seed, epoch)
        passes, places = np.divmod(positions, count)
        picks = permute(shuffle_halves(passes, places, count, key), count, key)
        rows = take_rows(self.rows, picks)
        return Draws(rows, choose_views(key, passes, picks, self.views), np.zeros_like(rows))

    def find(self, epoch: int, row: int) -> np.ndarray:
        """As `Order.find`."""
        count, key = len(self.rows), (self.seed, epoch)
        places = invert(find_place(self.rows, row), count, key)
        if not len(places):
            return places
        passes, shuffled = np.arange(self.views), np.repeat(places, self.views)
        return passes * count + shuffle_halves(passes, shuffled, count, key, invert)


def shuffle_halves(
    passes: np.ndarray,
    places: np.ndarray,
    count: int,
    key: tuple[int, ...],
    shuffle: Callable[..., np.ndarray] = permute,
) -> np.ndarray:
    """Permutes places of each pass within their half of `count`, or inverts that: int64 [n]."""
    first_half = -(-count // 2)
    shuffled = np.empty_like(places)
    halves = 2 * passes + (places >= first_half)
    for half in np.unique(halves).tolist():
        here, second = halves == half, half % 2
        start = first_half if second else 0
        size = count - first_half if second else first_half
        shuffled[here] = start + shuffle(places[here] - start, size, (*key, half))
    return shuffled


def choose_views(
    key: tuple[int, ...], passes: np.ndarray, picks: np.ndarray, views: int
) -> np.ndarray:
    """The view that each pick shows in each pass: int64 [n].

    A pick has a hash for each pass, no two alike; the rank of this pass's hash is the view.
    """
    base = mix64(picks.astype(np.uint64) ^ key_words(key)[0])
    own = mix64(base + passes.astype(np.uint64))
    chosen = np.zeros(len(picks), np.int64)
    for number in range(views):
        chosen += mix64(base + np.uint64(number)) < own
    return chosen
