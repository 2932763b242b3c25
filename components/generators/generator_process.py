"""Runs Python generators in processes of their own, and takes their items in one order.

A user's function is sent by its code, not by the name of the module that it is in. So it may be a
script's, a notebook's or a local one, and the worker does not import all that the module imports:
TensorFlow alone takes five seconds and 400 MB.
"""

import contextlib
import dataclasses
import functools
import pickle
import sys
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cloudpickle

from image_pipeline.components.errors import UserError
from image_pipeline.components.generators import generator_worker
from image_pipeline.components.generators.generator_worker import (
    END,
    FAILED,
    NO_SHARD,
    Failure,
    Work,
)
from image_pipeline.components.processes import Child
from image_pipeline.components.threads import usable_cores

_BUFFER_BYTES = 2**20  # on the way from a worker, if the system allows as much
_MAIN = f"{generator_worker.__name__}:main"


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """What a worker has sent.

    Attributes:
      kind: `ITEM`, `WRONG`, `END` or `FAILED`.
      shard: whose it is.
      item: its number in the shard, from 0; of an end, how many items there were.
      body: the item as `encode` gave it, why it is wrong, or a `Failure`.
    """

    kind: str
    shard: int
    item: int
    body: Any


def _receive(name: str, worker: Child, shard: int, item: int, timeout_s: float) -> Sent:
    """Waits for the next message, which must be this one; see `run_generators`."""
    item_name = f"item {item} of shard {shard} of {name}"
    try:
        kind, its, number, body = worker.receive(time.monotonic() + timeout_s)
    except TimeoutError as error:
        raise UserError(
            f"{item_name} was not yielded within the time-out; look for what the generator "
            "waits for, or raise timeout_s (ingest.generator.timeout_s)."
        ) from error
    except (EOFError, ConnectionError) as error:
        raise UserError(
            f"The process that was to yield {item_name} {worker.tell_end()}; a generator must not "
            "end it, nor close descriptors that are not its own."
        ) from error
    if its == NO_SHARD:
        assert isinstance(body, Failure)
        raise UserError(f"{name} cannot be run: {body.what}")
    if (its, number) != (shard, item):
        raise RuntimeError(
            f"{name}: item {item} of shard {shard} was lost; item {number} of shard {its} came "
            "instead."
        )
    return Sent(kind, shard, item, body)


def kill_all() -> None:
    """Ends all workers: whoever waits for an item then, as a data set may, learns of it at once."""
    for worker in list(_LIVE):
        worker.kill()


_LIVE: weakref.WeakSet[Child] = weakref.WeakSet()


def run_generators(
    name: str,
    load: Callable[[], Callable[[int, int], Any]],
    shards: Sequence[int],
    of: int,
    encode: Callable[[Any], Any],
    timeout_s: float,
    *,
    workers: int | None = None,
    most_items: int | None = None,
) -> Iterator[Sent]:
    """Runs the generators of some shards, as many at a time as there are cores.

    Their items are taken in turn, one of each shard, until each has ended. So the order depends on
    the shards only. When the iterator is closed or forgotten, the processes are ended.

    Args:
      name: what the generators are called in messages.
      load: see `Work`; so are `of`, `encode` and `most_items`.
      shards: their numbers.
      timeout_s: the longest wait for an item.
      workers: the number of processes; None for one a core.

    Yields:
      Items, and how each shard ended.

    Raises:
      UserError: if a worker cannot start, dies, or does not answer in time.
    """
    count = min(workers or usable_cores(), len(shards))
    pool: list[Child] = []
    try:
        for number in range(count):
            own = tuple(shards[number::count])
            work = cloudpickle.dumps(Work(load, own, of, encode, most_items), 5)
            pool.append(Child(_MAIN, buffer_bytes=_BUFFER_BYTES))
            _LIVE.add(pool[-1])
            pool[-1].send(work)
        turns = {shard: pool[number % count] for number, shard in enumerate(shards)}
        taken = dict.fromkeys(shards, 0)
        while turns:
            for shard, worker in list(turns.items()):
                sent = _receive(name, worker, shard, taken[shard], timeout_s)
                if sent.kind in (END, FAILED):
                    del turns[shard]
                taken[shard] += 1
                yield sent
    finally:
        for worker in pool:
            worker.hang_up()
        for worker in pool:
            worker.end()


def send_function(function: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    """What gives the function in another process, with the values that its module has now.

    Where these cannot be sent, and for installed packages, its module is imported there.

    Raises:
      Exception: whatever is raised by what the function holds, if it cannot be sent either way.
    """
    with _by_value(_module_of(function)), contextlib.suppress(Exception):
        return functools.partial(pickle.loads, cloudpickle.dumps(function, 5))
    return functools.partial(pickle.loads, cloudpickle.dumps(function, 5))


def _module_of(function: Any) -> types.ModuleType | None:
    """The module that the user wrote it in; None for an installed package's."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__module__", None) or type(function).__module__
    module = sys.modules.get(name)
    path = getattr(module, "__file__", None) or ""
    is_own = path.endswith(".py") and "site-packages" not in path and name != "__main__"
    return module if is_own and not path.startswith(sys.base_prefix) else None


@contextlib.contextmanager
def _by_value(module: types.ModuleType | None) -> Iterator[None]:
    if module is None or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
