"""Runs Python generators in processes of their own, and takes their items in one order.

A user's function is sent by its code, not by the name of the module that it is in. So it may be a
script's, a notebook's or a local one, and the worker does not import all that the module imports:
TensorFlow alone takes five seconds and 400 MB.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cloudpickle
import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.generators.generator_worker import (
    END,
    FAILED,
    NO_SHARD,
    SIZE,
    Failure,
    Work,
)
from image_pipeline.components.threads import usable_cores

_BUFFER_BYTES = 2**20  # on the way from a worker, if the system allows as much
_LOOK_S = 0.5
_END_S = 2.0  # A worker takes one at most.
# The parent's own path, so that a module is found where the parent would find it.
_SCRIPT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from image_pipeline.components.generators import generator_worker; "
    "generator_worker.main(*map(int, sys.argv[2:]))"
)


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


class GeneratorProcess:
    """A worker, which ends at the latest when this process does."""

    def __init__(self, name: str, work: bytes):
        """Starts it."""
        ours, its = socket.socketpair()
        its.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._name, self._owner = name, os.getpid()
        self._link = ours
        with its:
            self._process = _start(its.fileno())
        _LIVE.add(self)
        with contextlib.suppress(OSError):  # If it has died, `receive` says so.
            self._link.sendall(pickle.dumps(work, 5))
        self._link.settimeout(_LOOK_S)

    def receive(self, shard: int, item: int, timeout_s: float) -> Sent:
        """Waits for the next message, which must be this one; see `run_generators`."""
        kind, its, number, body = self._await(shard, item, time.monotonic() + timeout_s)
        if its == NO_SHARD:
            assert isinstance(body, Failure)
            raise UserError(f"{self._name} cannot be run: {body.what}")
        if (its, number) != (shard, item):
            raise RuntimeError(
                f"{self._name}: item {item} of shard {shard} was lost; item {number} of shard "
                f"{its} came instead."
            )
        return Sent(kind, shard, item, body)

    def _await(self, shard: int, item: int, until_s: float) -> Any:
        item_name = f"item {item} of shard {shard} of {self._name}"
        try:
            (size_bytes,) = SIZE.unpack(self._read(SIZE.size, until_s))
            return pickle.loads(self._read(size_bytes, until_s))
        except TimeoutError as error:
            raise UserError(
                f"{item_name} was not yielded within the time-out; look for what the generator "
                "waits for, or raise timeout_s (ingest.generator.timeout_s)."
            ) from error
        except (EOFError, ConnectionError) as error:
            raise UserError(
                f"The process that was to yield {item_name} {self._tell_end()}"
            ) from error

    def _read(self, size_bytes: int, until_s: float) -> memoryview:
        missing = data = np.empty(size_bytes, np.uint8).data
        has_ended = False
        while missing:
            try:
                count = self._link.recv_into(missing)
            except TimeoutError:
                if has_ended:  # What it has started may hold its socket.
                    raise EOFError from None
                if time.monotonic() >= until_s:
                    raise
                has_ended = self._process.poll() is not None
                continue
            if not count:
                raise EOFError
            missing = missing[count:]
        return data

    def _tell_end(self) -> str:
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "closed its connection; it must leave descriptors alone that are not its own."
        if code < 0:
            memory = ", as the system does where memory runs out" if code == -signal.SIGKILL else ""
            return f"was killed by signal {-code}{memory}."
        return f"ended with exit code {code}; generators must not end it."

    def hang_up(self) -> None:
        """Tells it that no more is wanted."""
        if os.getpid() == self._owner:
            self._link.close()

    def end(self) -> None:
        """Waits for its end, or ends it; a fork of the parent leaves it alone."""
        if os.getpid() != self._owner:
            return
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it, and what it has started, at once; a fork of the parent leaves it alone."""
        if os.getpid() == self._owner:
            if self._process.poll() is None:  # Or its number may be another one's by now.
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _start(link: int) -> subprocess.Popen:
    """Starts `generator_worker.main` with its end of the connection."""
    arguments = (json.dumps([*map(str, sys.path)]), link, os.getpid())
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _SCRIPT, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=2,  # What a command prints there may be read by a program.
        pass_fds=(link,),
        process_group=0,  # Ctrl-C is the parent's; it ends its workers.
        # A TensorFlow in each worker would take the GPU's memory from the one that trains.
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
    )


def kill_all() -> None:
    """Ends all workers: whoever waits for an item then, as a data set may, learns of it at once."""
    for worker in list(_LIVE):
        worker.kill()


_LIVE: weakref.WeakSet[GeneratorProcess] = weakref.WeakSet()


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
    pool: list[GeneratorProcess] = []
    try:
        for number in range(count):
            own = tuple(shards[number::count])
            work = cloudpickle.dumps(Work(load, own, of, encode, most_items), 5)
            pool.append(GeneratorProcess(name, work))
        turns = {shard: pool[number % count] for number, shard in enumerate(shards)}
        taken = dict.fromkeys(shards, 0)
        while turns:
            for shard, worker in list(turns.items()):
                sent = worker.receive(shard, taken[shard], timeout_s)
                if sent.kind in (END, FAILED):
                    del turns[shard]
                taken[shard] += 1
                yield sent
    finally:
        _stop(pool)


def _stop(workers: Sequence[GeneratorProcess]) -> None:
    for worker in workers:
        worker.hang_up()
    for worker in workers:
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
