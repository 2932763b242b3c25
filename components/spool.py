"""Items that are made once and asked for several times, kept meanwhile, in a file if many."""

import itertools
import pickle
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from image_pipeline.components.errors import UserError

Item = TypeVar("Item")


_MOST_BYTES = 2**22  # that items held at once take, but for one that takes more by itself
_FIRST_BYTES = 2**22  # that the first items take, pickled, which are held as they are


class Spool(Generic[Item]):
    """Passes items on as they are made, and keeps them; whoever asks again gets the same.

    Nothing is made before it is asked for, and nothing twice; an error ends every pass at the same
    item. The first items, of most sources all, stay in memory as they are, for each pass over
    others unpickles them. What was kept is deleted with the spool. Its place is that of Python's
    temporary files (`TMPDIR`).
    """

    def __init__(self, items: Iterable[Item], at_once: int = 256):
        """Makes nothing yet.

        Args:
          items: what is kept: anything that can be pickled.
          at_once: how many are held in memory, and written together; of large ones, fewer.
        """
        self._items, self._most = iter(items), at_once
        self._at_once = min(8, at_once)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the spool)
        self._first: list[list[Item]] = []
        self._first_bytes = 0
        self._ends = [0]
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Item]:
        """All items in their order; those that nobody has asked for yet are made now."""
        for at in itertools.count():
            made = len(self._first) + len(self._ends) - 1
            items = self._read(at) if at < made else self._make()
            if not items:
                return
            yield from items

    def _make(self) -> list[Item]:
        if self._error is not None:
            raise self._error
        items: list[Item] = []
        try:
            items.extend(itertools.islice(self._items, self._at_once))
        except Exception as error:
            self._error = error
            if not items:
                raise
        if not items:
            return items
        pickled = pickle.dumps(items, pickle.HIGHEST_PROTOCOL)
        fitting = len(items) * _MOST_BYTES // len(pickled)
        self._at_once = max(1, min(2 * self._at_once, fitting, self._most))
        self._first_bytes += len(pickled)
        if self._first_bytes <= _FIRST_BYTES:
            self._first.append(items)
            return items
        data = zlib.compress(pickled, 1)
        try:
            self._file.seek(self._ends[-1])
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            self._error = UserError(
                f"The listing cannot be kept in {tempfile.gettempdir()!r} ({error.strerror}); "
                "free some space there, or set TMPDIR to a folder that has some."
            )
            raise self._error from error
        self._ends.append(self._ends[-1] + len(data))
        return items

    def _read(self, at: int) -> list[Item]:
        if at < len(self._first):
            return self._first[at]
        at -= len(self._first)
        self._file.seek(self._ends[at])
        return pickle.loads(zlib.decompress(self._file.read(self._ends[at + 1] - self._ends[at])))
