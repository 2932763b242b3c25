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
        """Refuses an empty selection and no views."""
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
        passes, places = np.divmod(positions, len(self.rows))
        shuffled = self._shuffle_halves(epoch, passes, places)
        picks = permute(shuffled, len(self.rows), (self.seed, epoch))
        rows = take_rows(self.rows, picks)
        return Draws(rows, self._choose_views(epoch, passes, picks), np.zeros_like(rows))

    def find(self, epoch: int, row: int) -> np.ndarray:
        """As `Order.find`."""
        count = len(self.rows)
        places = invert(find_place(self.rows, row), count, (self.seed, epoch))
        if not len(places):
            return places
        passes, shuffled = np.arange(self.views), np.repeat(places, self.views)
        return passes * count + self._shuffle_halves(epoch, passes, shuffled, invert)

    def _shuffle_halves(
        self,
        epoch: int,
        passes: np.ndarray,
        places: np.ndarray,
        shuffle: Callable[..., np.ndarray] = permute,
    ) -> np.ndarray:
        """Permutes the places of each pass within their half, or inverts that: int64 [n]."""
        first_half = -(-len(self.rows) // 2)
        shuffled = np.empty_like(places)
        keys = 2 * passes + (places >= first_half)
        for key in np.unique(keys).tolist():
            here, second = keys == key, key % 2
            start = first_half if second else 0
            size = len(self.rows) - first_half if second else first_half
            shuffled[here] = start + shuffle(places[here] - start, size, (self.seed, epoch, key))
        return shuffled

    def _choose_views(self, epoch: int, passes: np.ndarray, picks: np.ndarray) -> np.ndarray:
        """The view that each pick shows in each pass: int64 [n].

        A pick has a hash for each pass, no two alike; the rank of this pass's hash is the view.
        """
        base = mix64(picks.astype(np.uint64) ^ key_words((self.seed, epoch))[0])
        own = mix64(base + passes.astype(np.uint64))
        views = np.zeros(len(picks), np.int64)
        for number in range(self.views):
            views += mix64(base + np.uint64(number)) < own
        return views
