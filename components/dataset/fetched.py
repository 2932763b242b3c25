"""Records of shards in a store: asked for before they are needed, and kept on the local disk.

As the order is known, so are the requests. Those for records that lie near each other are one. Of
the shards that fit into `cache_bytes`, each record is fetched once, by whichever process needs it
first: a permuted epoch has every record once, so that it does not matter which shards are kept, and
none is ever thrown out. (With room for a tenth, evicting the least recently used gives a hit in
0.5 % of all reads, keeping a tenth in 10 %, which is the best that there is.)
"""

import collections
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.dataset.tfrecord import CorruptRecord, unframe
from image_pipeline.components.threads import usable_cores

_LOG = logging.getLogger(__name__)
# A request takes longer than these bytes do by one connection: a gap costs less than another one.
_GAP_BYTES = 2**16
# Requests side by side. They wait, at 50 ms each: 128 are 2,560 a second, what two cores decode.
_REQUESTS, _REQUESTS_A_CORE = 128, 64

Place = tuple[int, int, int]
"""Of a record: the number of its shard, its first byte there, and its size with its frame."""


class FetchedRecords:
    """Framed records, by requests that begin when they are announced. Threads may share it."""

    def __init__(self, shard_paths: Sequence[str], kept: "KeptShards | None" = None):
        """Begins no request; `kept` has those that were fetched before."""
        self._paths, self._kept = shard_paths, kept
        self._lock = threading.Lock()
        # Each announced record's answer, and how many have announced it.
        self._answers: dict[Place, concurrent.futures.Future[dict[Place, bytes]]] = {}
        self._users: collections.Counter[Place] = collections.Counter()
        most = max(_REQUESTS, _REQUESTS_A_CORE * usable_cores())
        self._pool = concurrent.futures.ThreadPoolExecutor(most, "requests")

    def announce(self, places: Sequence[Place]) -> None:
        """Begins to fetch records; returns at once. Each announcement ends by `release`."""
        with self._lock:
            new = [place for place in dict.fromkeys(places) if place not in self._answers]
            self._users.update(places)
            for group in _join(new):
                answer = self._pool.submit(self._fetch, group)
                self._answers.update(dict.fromkeys(group, answer))

    def release(self, places: Sequence[Place]) -> None:
        """Forgets records, once nobody needs them who has announced them."""
        with self._lock:
            self._users.subtract(places)
            for place in places:
                if not self._users[place]:
                    del self._users[place]
                    answer = self._answers.pop(place, None)
                    # One answer has many records, of which others may be needed much later.
                    if answer is not None and answer.done() and answer.exception() is None:
                        answer.result().pop(place, None)

    def read(self, place: Place) -> bytes:
        """A record with its frame, or as much as the shard has of it; waits for its request.

        Raises:
          OSError, UserError: as `files.read_file`.
        """
        with self._lock:
            answer = self._answers.get(place)
        found = self._fetch([place]) if answer is None else answer.result()
        return found[place]

    def _fetch(self, places: Sequence[Place]) -> dict[Place, bytes]:
        """Some records of one shard, which are near each other, from the disk or by one request."""
        found = {} if self._kept is None else self._kept.read(places)
        if not (missing := [place for place in places if place not in found]):
            return found
        (shard, first, _), (_, last, size) = missing[0], missing[-1]
        block = files.read_file(self._paths[shard], first, last + size)
        fetched = {at: block[at[1] - first : at[1] - first + at[2]] for at in missing}
        if self._kept is not None:
            self._kept.keep(fetched)
        return found | fetched


def _join(places: Sequence[Place]) -> Iterator[list[Place]]:
    """Puts records together that one request is for."""
    group: list[Place] = []
    for place in sorted(places):
        if group and (place[0] != group[-1][0] or place[1] > sum(group[-1][1:]) + _GAP_BYTES):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


class KeptShards:
    """Copies of the first shards that fit, as sparse files that records are written into.

    Whether a record is there is told by its checksums, so that nothing else is noted: a process may
    be killed at any moment, and others may use the same files.
    """

    def __init__(self, folder: str, sizes: np.ndarray, most_bytes: int, own: slice = slice(None)):
        """Opens no file yet.

        Args:
          folder: on this machine, of this data set alone.
          sizes: int64 [shards], their sizes in bytes.
          most_bytes: what may be kept of them.
          own: which shards are kept at all.
        """
        self._folder = folder
        self._is_kept = np.zeros(len(sizes), bool)
        self._is_kept[own] = np.cumsum(sizes[own].astype(np.float64)) <= most_bytes
        self._is_full = False

    def read(self, places: Sequence[Place]) -> dict[Place, bytes]:
        """Those records of one shard that are kept, and whole."""
        found: dict[Place, bytes] = {}
        if not self._is_kept[places[0][0]]:
            return found
        # Opened each time: a data set may have more shards than a process may open files.
        with (
            contextlib.suppress(OSError),
            open(self._path(places[0][0]), "rb", buffering=0) as file,
        ):
            for place in places:
                framed = os.pread(file.fileno(), place[2], place[1])
                with contextlib.suppress(CorruptRecord):
                    unframe(framed)
                    found[place] = framed
        return found

    def keep(self, found: dict[Place, bytes]) -> None:
        """Keeps records of one shard, if it is among those that are kept."""
        shard = next(iter(found))[0]
        if not self._is_kept[shard] or self._is_full:
            return
        try:
            os.makedirs(self._folder, exist_ok=True)
            file = os.open(self._path(shard), os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                for (_, first, _), framed in found.items():
                    os.pwrite(file, framed, first)
            finally:
                os.close(file)
        except OSError as error:  # What is kept only saves requests.
            self._is_full = True
            _LOG.warning(
                "Records are no longer kept in %s (%s): make room there, or lower "
                "feeding.cache_bytes.",
                *(self._folder, error.strerror),
            )

    def _path(self, shard: int) -> str:
        return os.path.join(self._folder, f"{shard:06}")
