"""A bounded pool of threads that keeps order.

The C libraries that read, decode, resize and encode release the GIL, so threads use every core;
on object stores they also hide the latency of reads.
"""

import collections
import concurrent.futures
import contextlib
import gc
import itertools
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

# Threads that read an object store: at 50 ms a request, 1,280 files a second.
REMOTE_THREADS = 64

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    batch: int = 1,
    ahead: int = 4,
) -> Iterator[Result]:
    """Applies a function in threads and yields the results in the order of the items.

    At most `ahead * threads * batch` results exist at a time, however slowly they are consumed.

    Args:
      function: called once for each item.
      items: read lazily.
      threads: size of the pool; 1 calls the function in the caller's own thread.
      batch: items that a thread takes at once. Handing over holds Python's lock for 0.05 to 0.1 ms,
        which is little if shared by 8 images of 2 ms.
      ahead: batches per thread that are in progress or waiting to be consumed.

    Yields:
      function(item), for each item in turn; an exception is raised in place of its item's batch.
    """
    if threads == 1:
        yield from map(function, items)
        return
    source = iter(items)
    batches = iter(lambda: list(itertools.islice(source, batch)), [])
    pending: collections.deque[concurrent.futures.Future[list[Result]]] = collections.deque()
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    try:
        for taken in batches:
            pending.append(pool.submit(lambda taken: [function(item) for item in taken], taken))
            if len(pending) >= ahead * threads:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)  # After an error, nothing new is started.


def take_ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yields the items, the next of which is made in a thread while one is used.

    An error in making an item is raised in its place; who stops early waits for one item at most.
    """
    source, end = iter(items), object()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, source, end)
        while (item := following.result()) is not end:
            following = pool.submit(next, source, end)
            yield item  # type: ignore[misc]


def call_together(*functions: Callable[[], Any]) -> list[Any]:
    """Calls functions at the same time, so that waiting for a store happens once, not for each.

    Returns:
      What each of them returned, in order; the first error is raised when all have ended.
    """
    with concurrent.futures.ThreadPoolExecutor(max(1, len(functions))) as pool:
        calls = [pool.submit(function) for function in functions]
    return [call.result() for call in calls]


def call_within(seconds: float, function: Callable[[], Result]) -> Result:
    """Calls a function that may wait for a machine that never answers.

    Raises:
      TimeoutError: if it has not returned after that many seconds; its thread is left behind, and
        does not keep the process from ending.
    """
    return start(function).result(seconds)


def start(function: Callable[[], Result]) -> concurrent.futures.Future[Result]:
    """Calls a function in a thread that does not keep the process from ending."""
    future: concurrent.futures.Future[Result] = concurrent.futures.Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future


class _Pauses:
    """How many pauses of the garbage collection last, and whether it goes on after them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count, self._goes_on = 0, False

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        with self._lock:
            if not self._count:
                self._goes_on = gc.isenabled()
                gc.disable()
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count and self._goes_on:
                    gc.enable()


pause_collection = _Pauses().pause
"""Keeps Python from looking for garbage for a while, in all threads: what it finds, it frees in the
thread that it runs in. A TensorFlow iterator that is freed waits for the threads that it reads in:
in one of them, for good."""
