"""Progress of the long work in this process: stages count, and whoever shows it reads the counts.

Counting is an addition under a lock, so stages need not know whether anyone reads it. There is one
piece of work at a time, since TFX and Beam's local runner work that way; what Beam workers
elsewhere have done comes from the job's counters (`components.beam.counters`).
"""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Progress:
    """How much of a piece of work is done.

    Attributes:
      unit: what is counted, in the plural: "images".
      total: how many there are.
      done: how many are done.
      bad: how many of these were quarantined.
      skipped: how many are not images.
      told: what is known of the result so far.
    """

    unit: str
    total: int
    done: int = 0
    bad: int = 0
    skipped: int = 0
    told: str = ""


_lock = threading.Lock()
_current: Progress | None = None
# What threads are doing, and since when (`time.monotonic`), for work that may take very long.
_named: dict[int, tuple[float, str]] = {}


def begin(unit: str, total: int, done: int = 0) -> None:
    """Begins a new piece of work; forgets what was counted before."""
    global _current
    with _lock:
        _current = Progress(unit, total, done)


def advance(done: int = 1, bad: int = 0, skipped: int = 0) -> None:
    """Counts what was done, if a piece of work was begun."""
    global _current
    with _lock:
        if _current is not None:
            _current = dataclasses.replace(
                _current,
                done=_current.done + done,
                bad=_current.bad + bad,
                skipped=_current.skipped + skipped,
            )


def tell(what: str) -> None:
    """Says what is known of the result so far, replacing the line before."""
    global _current
    with _lock:
        if _current is not None:
            _current = dataclasses.replace(_current, told=what)


def reach(seen: Progress) -> None:
    """Takes over the counts of workers elsewhere, which may include what was counted here."""
    global _current
    with _lock:
        if _current is not None and _current.unit == seen.unit:
            seen = Progress(
                seen.unit,
                max(seen.total, _current.total),
                max(seen.done, _current.done),
                max(seen.bad, _current.bad),
                max(seen.skipped, _current.skipped),
            )
        _current = seen


@contextlib.contextmanager
def named(what: str) -> Iterator[None]:
    """Names what this thread does while the block runs, for `look_slow`; the innermost counts."""
    thread = threading.get_ident()
    before = _named.get(thread)
    _named[thread] = time.monotonic(), what
    try:
        yield
    finally:
        if before is None:
            _named.pop(thread, None)
        else:
            _named[thread] = before


def look_slow(seconds: float) -> tuple[str, float] | None:
    """What takes a thread longest, and for how long; None if that is less than `seconds`."""
    oldest = min(list(_named.values()), default=None)
    if oldest is None or (taken := time.monotonic() - oldest[0]) < seconds:
        return None
    return oldest[1], taken


def look() -> Progress | None:
    """The progress of the current piece of work; None if there is none."""
    with _lock:
        return _current


def end() -> None:
    """Ends the current piece of work."""
    global _current
    with _lock:
        _current = None
