"""Reading a data set in a store by large requests, in the order that shuffles by shards.

Of each lane, the shard that comes next is asked for piece by piece while the one before it is used:
what is held is one shard a lane, whatever is drawn of it first.
"""

import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.dataset.fetched import KeptShards
from image_pipeline.components.dataset.index import Entry, IndexRows, RecordIndex
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.feeding.budget import Stage
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.order.shards_order import Piece, ShardsOrder

# A request that is larger takes no less time by the byte.
_PART_BYTES = 2**23


class ReadAhead:
    """The records of the shards that come, held from their request until they are drawn.

    It follows one iteration, batch by batch; at any other step than the next it begins again, by
    what is left of the shards that are in use there.
    """

    def __init__(
        self,
        order: ShardsOrder,
        index: RecordIndex,
        records: StoredRecords,
        feeding: FeedingOptions,
        passes: Passes,
        steps: int,
    ):
        """Asks for nothing yet; `steps` are the batches of an epoch."""
        self._order, self._index, self._records = order, index, records
        self._feeding, self._passes, self._steps = feeding, passes, steps
        self._part = max(1, _PART_BYTES // index.record_bytes)
        self._lock = threading.Lock()
        self._coming: tuple[int, int] | None = None
        # Of each lane, how many of its draws since epoch 0 were asked for.
        self._asked: list[int] = []
        # By their epochs and positions there: where records are, and their rows of the index.
        self._held: dict[tuple[int, int], tuple[Entry, tuple[Any, ...]]] = {}

    def plan(self) -> Stage:
        """What is held at most."""
        lanes, workers = self._order.lanes, self._passes.workers
        # A worker whose part is not made of whole lanes has parts of two more.
        torn = lanes % workers > 0 or self._order.views > 1
        lanes = min(lanes, -(-lanes // workers) + torn)
        largest = int(self._index.sizes.max())
        made_of = f"{lanes} of shards_at_once x {largest / 1e6:.1f} MB, the largest shard"
        return Stage("shards ahead", lanes * (largest + _PART_BYTES), made_of)

    def advance(self, epoch: int, step: int) -> None:
        """Asks for what comes as far ahead of a batch as the longest shard is."""
        with self._lock:
            if self._coming != (epoch, step):
                self._begin(epoch, step)
            self._coming = (epoch, step + 1) if step + 1 < self._steps else (epoch + 1, 0)
            start, end = (number * self._feeding.batch_size for number in (step, step + 1))
            drawn = self._order.count_drawn(epoch, end)
            all_draws = self._order.count_drawn(self._last_epoch(epoch), self._order.length)
            for lane, (now, last) in enumerate(zip(drawn, all_draws, strict=True)):
                while self._asked[lane] < min(now + self._order.longest_shard, last):
                    piece = self._order.look(lane, self._asked[lane], self._part)
                    is_due = (piece.epoch > epoch) | (piece.positions >= start)
                    self._ask(piece, is_due & self._is_own(piece.positions))
                    self._asked[lane] = piece.end

    def _begin(self, epoch: int, step: int) -> None:
        """Goes to the beginning of the segments that a batch draws from."""
        self._release(list(self._held))
        drawn = self._order.count_drawn(epoch, step * self._feeding.batch_size)
        self._asked = [self._order.find_segment(*each) for each in enumerate(drawn)]

    def _last_epoch(self, epoch: int) -> int:
        """The last epoch, of those that may be looked at, of the iteration with this one."""
        if self._passes.epochs is None:
            return epoch + 1
        first, epochs = self._passes.first_epoch, self._passes.epochs
        return first + ((epoch - first) // epochs + 1) * epochs - 1

    def _is_own(self, positions: np.ndarray) -> np.ndarray:
        """Whether this worker reads what some positions draw: bool [n]."""
        size = self._feeding.batch_size
        steps, places = np.divmod(positions, size)
        is_drawn = steps < self._steps
        if self._feeding.bad_records == "skip":
            return is_drawn
        count = size
        if self._feeding.remainder != "pad":
            count = np.minimum(size, self._order.length - steps * size)
        start, stop = self._passes.cut_share(count, self._feeding)
        return is_drawn & (places >= start) & (places < stop)

    def _ask(self, piece: Piece, is_read: np.ndarray) -> None:
        """Fetches a piece's records that are read (bool [n]), by one request if they are close."""
        if not is_read.any():
            return
        rows, positions = piece.rows[is_read], piece.positions[is_read].tolist()
        found = self._index.take(rows)
        entries = found.list_entries(rows)
        self._records.announce(entries)
        for position, entry, row in zip(positions, entries, zip(*found, strict=True), strict=True):
            self._held[piece.epoch, position] = entry, row

    def find(self, epoch: int, positions: Sequence[int]) -> IndexRows | None:
        """What the index says of what these positions draw, if all of it is held."""
        found = [
            self._held[key] for position in positions if (key := (epoch, position)) in self._held
        ]
        if not found or len(found) < len(positions):
            return None
        return IndexRows._make(map(np.array, zip(*(row for _, row in found), strict=True)))

    def release(self, epoch: int, positions: Sequence[int]) -> None:
        """Forgets what these positions draw: whoever needs it has announced it."""
        with self._lock:
            self._release([(epoch, position) for position in positions])

    def close(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._coming = None
            self._release(list(self._held))

    def _release(self, keys: Sequence[tuple[int, int]]) -> None:
        held = [self._held.pop(key) for key in keys if key in self._held]
        self._records.release([entry for entry, _ in held])


def keep_shards(index: RecordIndex, feeding: FeedingOptions, passes: Passes) -> KeptShards | None:
    """Where records of shards in a store are kept; None for those on a disk."""
    if all(map(files.is_local, index.roots)):
        return None
    own = slice(None)
    if feeding.own_shards and passes.training:
        own = slice(passes.worker, None, passes.workers)
    folder = os.path.join(feeding.cache_folder, index.identity)
    return KeptShards(folder, index.sizes, feeding.cache_bytes, own)
