"""A bounded pool of threads that keeps order.

The C libraries that read, decode, resize and encode release the GIL, so threads use every core;
on object stores they also hide the latency of reads.
"""

import collections
import concurrent.futures
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Applies a function in threads and yields the results in the order of the items.

    At most `4 * threads` results exist at a time, however slowly they are taken.

    Args:
      function: called once for each item.
      items: read lazily.
      threads: size of the pool; 1 calls the function in the caller's own thread.

    Yields:
      function(item), for each item in turn; the first exception is raised in its place.
    """
    if threads == 1:
        yield from map(function, items)
        return
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        pending: collections.deque[concurrent.futures.Future[Result]] = collections.deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= 4 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
