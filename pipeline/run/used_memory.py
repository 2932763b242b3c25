"""How much memory a piece of work took."""

import contextlib
import itertools
import threading
from collections.abc import Iterator

import psutil

_INTERVAL_S = 0.05
_SAMPLES = 20  # Between two looks for new children: to find them, all processes are looked at.


class PeakMemory:
    """The largest resident memory seen so far, in MB (10^6 bytes)."""

    peak_rss_mb = 0.0


@contextlib.contextmanager
def watch_memory() -> Iterator[PeakMemory]:
    """Samples this process and its children 20 times a second while the block runs.

    New children are looked for once a second.

    Yields:
      The peak, which is final when the block has ended.
    """
    peak, stop = PeakMemory(), threading.Event()

    def sample() -> None:
        process = psutil.Process()
        for number in itertools.count():
            if number % _SAMPLES == 0:
                processes = [process, *process.children(recursive=True)]
            total = 0
            for each in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    total += each.memory_info().rss
            peak.peak_rss_mb = max(peak.peak_rss_mb, total / 1e6)
            if stop.wait(_INTERVAL_S):
                return

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()
