"""A shuffle by shards, which a few large requests read: permuted shards, some at once, mixed.

The full permutation asks a store for each record by itself. Here a batch has `shards_at_once` equal
parts, its lanes, each of which goes through shards of its own, one after the other. It is what
`interleave` and a shuffle buffer are for, but computed: nothing is read to know what comes.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np

from image_pipeline.components.order.draws import Draws, Rows, check_rows, find_place, take_rows
from image_pipeline.components.order.many_views import choose_views, shuffle_halves
from image_pipeline.components.order.permutation import check_positions, invert, permute


@dataclasses.dataclass(frozen=True, eq=False)
class Piece:
    """Neighbours in a shard, of one lane and epoch.

    Attributes:
      epoch: its number.
      rows: int64 [n], rows of the index, ascending.
      positions: int64 [n], the positions of the epoch that draw them.
      end: where the lane's next piece begins, see `ShardsOrder.look`.
    """

    epoch: int
    rows: np.ndarray
    positions: np.ndarray
    end: int


class ShardsOrder:
    """Every view of every row once an epoch, of `shards_at_once` shards at any time.

    The shards of an epoch stand in a permutation of their own. Their rows, end to end, are dealt to
    the lanes: lane l has the places [first[l], first[l + 1]) of each batch, and so many rows in one
    piece as these places come in an epoch. Where pieces and shards are cut, segments begin and end;
    a lane draws one after the other, each in a permutation of its own.

    A worker that has a part of each batch has these lanes alone: of so many bytes as its part.
    Several views are as many passes over the same segments, whose rows are parted into halves as
    those of `ViewsOrder` are.
    """

    def __init__(
        self,
        rows: Rows,
        starts: np.ndarray,
        seed: int,
        batch_size: int,
        shards_at_once: int,
        views: int = 1,
    ):
        """Counts the rows of each shard; of two epochs, 16 bytes a shard are held, too.

        Args:
          rows: rows of the index, ascending.
          starts: int64 [shards + 1], the first row of each shard, and the number of all rows.
          seed: decides the order, together with the epoch's number.
          batch_size: draws a global batch, on which the order depends.
          shards_at_once: lanes; a batch has no more of them than draws.
          views: of each row.
        """
        check_rows(rows)
        if min(batch_size, shards_at_once, views) < 1:
            raise ValueError(
                "batch_size, shards_at_once and views must be positive, got "
                f"{batch_size}, {shards_at_once} and {views}."
            )
        self.rows, self.views, self._seed = rows, views, seed
        self._batch_size = batch_size = min(batch_size, len(rows))
        edges = _count_below(rows, starts)
        is_read = np.diff(edges) > 0
        self._firsts, self._counts = edges[:-1][is_read], np.diff(edges)[is_read]
        self.lanes = lanes = min(shards_at_once, batch_size)
        # The first place of each lane in a batch, and its first row of those that are dealt.
        self._places = -(-np.arange(lanes + 1, dtype=np.int64) * batch_size // lanes)
        self._dealt = self._count_before(len(rows))
        self.longest_shard = int(self._counts.max())
        # Of the epoch that is read and, at its end, the next one.
        self._cut = functools.lru_cache(maxsize=2)(self._cut_epoch)

    @property
    def length(self) -> int:
        """Draws an epoch: rows times views."""
        return len(self.rows) * self.views

    def min_distance(self) -> int:
        """A bound of the distance in positions between two views of one row in an epoch.

        In each pass a row is drawn within its half of its segment, of which the longest has h rows.
        A lane of w places draws these within (w + h - 2) // w steps and some places, and a pass is
        as long as there are rows. One view a row has no such pair: then it is the length.
        """
        if self.views == 1:
            return self.length
        longest = min(self.longest_shard, int(np.diff(self._dealt).max()))
        between, width = -(-longest // 2) - 1, int(np.diff(self._places).min())
        steps = (width - 1 + between) // width
        return len(self.rows) - steps * (self._batch_size - width) - between

    def draw(self, epoch: int, positions: np.ndarray) -> Draws:
        """As `Order.draw`."""
        check_positions(positions, self.length)
        passes, within = np.divmod(positions, len(self.rows))
        steps, places = np.divmod(within, self._batch_size)
        lanes = places * self.lanes // self._batch_size
        widths = np.diff(self._places)[lanes]
        dealt = self._dealt[lanes] + steps * widths + places - self._places[lanes]
        cuts, firsts = self._cut(epoch)
        segments = np.searchsorted(cuts, dealt, side="right") - 1
        picks = firsts[segments] + self._mix(epoch, passes, segments, dealt - cuts[segments])
        rows, views = take_rows(self.rows, picks), np.zeros_like(picks)
        if self.views > 1:
            views = choose_views((self._seed, epoch), passes, picks, self.views)
        return Draws(rows, views, np.zeros_like(rows))

    def find(self, epoch: int, row: int) -> np.ndarray:
        """As `Order.find`; in time that grows with the shards."""
        picks = find_place(self.rows, row)
        if not len(picks):
            return picks
        cuts, firsts = self._cut(epoch)
        behind = picks - firsts
        segments = np.flatnonzero((behind >= 0) & (behind < np.diff(cuts)))
        passes = np.arange(self.views)
        segments, behind = (np.repeat(each, self.views) for each in (segments, behind[segments]))
        return self._find_dealt(
            passes, cuts[segments] + self._mix(epoch, passes, segments, behind, invert)
        )

    def _find_dealt(self, passes: np.ndarray, dealt: np.ndarray) -> np.ndarray:
        """The positions that draw what was dealt in some passes: int64 [n]."""
        lanes = np.searchsorted(self._dealt, dealt, side="right") - 1
        steps, places = np.divmod(dealt - self._dealt[lanes], np.diff(self._places)[lanes])
        places += self._places[lanes]
        return passes * len(self.rows) + steps * self._batch_size + places

    def count_drawn(self, epoch: int, end: int) -> list[int]:
        """How much each lane has drawn, from epoch 0 to before a position of an epoch."""
        passes, within = divmod(min(end, self.length), len(self.rows))
        whole = np.diff(self._dealt) * (epoch * self.views + passes)
        return (whole + np.diff(self._count_before(within))).tolist()

    def find_segment(self, lane: int, drawn: int) -> int:
        """Where the segment began from which a lane draws after so many draws since epoch 0."""
        epoch, _, dealt = self._find_lap(lane, drawn)
        cuts, _ = self._cut(epoch)
        return drawn - dealt + int(cuts[np.searchsorted(cuts, dealt, side="right") - 1])

    def look(self, lane: int, drawn: int, most: int) -> Piece:
        """What a lane draws from a segment, as it is stored.

        Args:
          lane: its number.
          drawn: where the piece begins, in draws of the lane since epoch 0: as `find_segment` says,
            or the piece before it.
          most: rows.
        """
        epoch, passes, dealt = self._find_lap(lane, drawn)
        cuts, firsts = self._cut(epoch)
        segment = int(np.searchsorted(cuts, dealt, side="right")) - 1
        places = np.arange(dealt, min(dealt + most, int(cuts[segment + 1]))) - cuts[segment]
        rows = take_rows(self.rows, firsts[segment] + places)
        segments, in_pass = np.full_like(places, segment), np.full_like(places, passes)
        mixed = cuts[segment] + self._mix(epoch, in_pass, segments, places, invert)
        return Piece(epoch, rows, self._find_dealt(in_pass, mixed), drawn + len(places))

    def _find_lap(self, lane: int, drawn: int) -> tuple[int, int, int]:
        """Of a lane's draw: the epoch, the pass there, and its place among what is dealt."""
        first, end = self._dealt[lane : lane + 2].tolist()
        lap, number = divmod(drawn, end - first)
        return *divmod(lap, self.views), first + number

    def _count_before(self, within: int) -> np.ndarray:
        """How many of a pass's first positions are places before each lane: int64 [lanes + 1]."""
        steps, rest = divmod(within, self._batch_size)
        return steps * self._places + np.minimum(rest, self._places)

    def _cut_epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """An epoch's segments.

        Returns:
          Where each begins among the rows as they are dealt, and their number: int64
          [segments + 1]; and the place of its first row in `rows`: int64 [segments].
        """
        count = len(self._counts)
        shards = permute(np.arange(count), count, (self._seed, epoch))
        edges = np.cumsum(np.concatenate([[0], self._counts[shards]]))
        cuts = np.union1d(edges, self._dealt)
        number = np.searchsorted(edges, cuts[:-1], side="right") - 1
        return cuts, self._firsts[shards[number]] + cuts[:-1] - edges[number]

    def _mix(
        self,
        epoch: int,
        passes: np.ndarray,
        segments: np.ndarray,
        places: np.ndarray,
        shuffle: Callable[..., np.ndarray] = permute,
    ) -> np.ndarray:
        """Permutes places within their segments, or inverts that: int64 [n]."""
        mixed, lengths = np.empty_like(places), np.diff(self._cut(epoch)[0])
        for segment, own in _group(segments):
            length, key = int(lengths[segment]), (self._seed, epoch, segment)
            moved = places[own]
            if self.views > 1 and shuffle is permute:
                moved = shuffle_halves(passes[own], moved, length, key)
            moved = shuffle(moved, length, key)
            if self.views > 1 and shuffle is invert:
                moved = shuffle_halves(passes[own], moved, length, key, invert)
            mixed[own] = moved
        return mixed


def _count_below(rows: Rows, starts: np.ndarray) -> np.ndarray:
    """How many of ascending rows are less than each start: int64 [n]."""
    if isinstance(rows, range):
        return np.clip(-((rows.start - starts) // rows.step), 0, len(rows))
    return np.searchsorted(rows, starts).astype(np.int64)


def _group(numbers: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each number (of int64 [n]) with the places where it stands."""
    order = np.argsort(numbers, kind="stable")
    found, firsts = np.unique(numbers[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, firsts)[1:], strict=True)
