"""The process that runs Python generators: their items go to the parent through shared memory.

It steps its shards' generators in turn, so what it sends has one order, whatever the number of such
processes. It ends when the parent does, however that ends.
"""

import contextlib
import dataclasses
import io
import itertools
import mmap
import os
import pickle
import select
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error

ITEM, WRONG, END, FAILED = "item", "wrong", "end", "failed"
"""What is sent: an item; one of a wrong type, and why; the end of a shard; how one failed."""
PART = "part"  # of an item that is too large to be sent at once
NO_SHARD = -1  # of what fails before any generator is called

ACKNOWLEDGED = struct.Struct("<BQ")
"""What the parent sends: how many messages it has taken, and bytes of the ring."""

_AHEAD = 64  # items that the parent has not taken yet
_PARTS = 4  # that a ring has room for
_LOOK_S = 1.0
_GRACE_S = 1.0
_STDERR = 2
_MOST_LINE_BYTES = 2**16  # of a line that does not end


class WrongItem(Exception):
    """What a generator yields is not what it should yield; the message says why."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What a worker is to do.

    Attributes:
      load: gives the function of a shard's number and the number of all shards, whose result is
        iterated.
      shards: the numbers of those to run.
      of: how many there are.
      encode: what an item is sent as, its arrays among it; raises `WrongItem`.
      most_items: how many a shard may have; the rest is not run. None: all.
    """

    load: Callable[[], Callable[[int, int], Any]]
    shards: tuple[int, ...]
    of: int
    encode: Callable[[Any], Any]
    most_items: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """What was raised: in one line, where, and with all that Python says."""

    what: str
    where: str
    trace: str


class _Stopped(Exception):
    """The parent wants no more."""


def allocate(size_bytes: int) -> int:
    """Makes memory to share; returns its file descriptor."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("image-pipeline", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size_bytes)
    return descriptor


class Ring:
    """One end of the memory. Whoever uses it says when there is room, or data."""

    def __init__(self, descriptor: int, size_bytes: int):
        """Maps the memory; the descriptor may then be closed."""
        self.size_bytes = size_bytes
        self._memory = np.frombuffer(mmap.mmap(descriptor, size_bytes), np.uint8)
        self._at = 0

    def write(self, data: np.ndarray) -> None:
        """Writes bytes, uint8 [n], behind those written before."""
        done = 0
        while done < len(data):
            room = self._next(len(data) - done)
            room[:] = data[done : done + len(room)]
            done += len(room)

    def read(self, size_bytes: int) -> np.ndarray:
        """Copies the next bytes: uint8 [n]."""
        data, done = np.empty(size_bytes, np.uint8), 0
        while done < size_bytes:
            found = self._next(size_bytes - done)
            data[done : done + len(found)] = found
            done += len(found)
        return data

    def _next(self, most_bytes: int) -> np.ndarray:
        """The next bytes up to the end of the memory, which are then passed."""
        part = self._memory[self._at : self._at + most_bytes]
        self._at = (self._at + len(part)) % self.size_bytes
        return part


class Link:
    """A worker's connection to its parent."""

    def __init__(self, connection: Connection, ring: Ring, parent: int):
        """Begins to listen."""
        self._connection, self._ring, self._parent = connection, ring, parent
        self._changed = threading.Condition()
        self._items = self._bytes = 0  # that were sent, and not taken yet
        self._is_stopped = False
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, kind: str, shard: int, item: int, body: Any = None) -> None:
        """Sends a message; waits while the parent is too far behind.

        The arrays of a body are not pickled: their bytes go through the ring.

        Raises:
          _Stopped: if the parent wants no more.
        """
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(body, 5, buffer_callback=buffers.append)
        arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
        sizes = [len(array) for array in arrays]
        waiting = 0
        for array in arrays:
            for start in range(0, len(array), self._ring.size_bytes // _PARTS):
                part = array[start : start + self._ring.size_bytes // _PARTS]
                if waiting + len(part) > self._ring.size_bytes // _PARTS:
                    self._tell((PART, shard, item, b"", [], waiting))
                    waiting = 0
                self._await_room(len(part))
                self._ring.write(part)
                waiting += len(part)
        self._await_room(0)
        self._tell((kind, shard, item, pickled, sizes, waiting))

    def _tell(self, message: tuple) -> None:
        with self._changed:
            self._items += 1
        self._connection.send_bytes(pickle.dumps(message, 5))

    def _await_room(self, size_bytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or self._has_room(size_bytes))
            if self._is_stopped:
                raise _Stopped
            self._bytes += size_bytes

    def _has_room(self, size_bytes: int) -> bool:
        return self._items < _AHEAD and self._bytes + size_bytes <= self._ring.size_bytes

    def _listen(self) -> None:
        """Hears what the parent has taken, and that it wants no more or has ended.

        Then it ends the process, whatever that is busy with.
        """
        with contextlib.suppress(EOFError, OSError):
            while os.getppid() == self._parent:
                if select.select([self._connection], [], [], _LOOK_S)[0]:
                    messages, size_bytes = ACKNOWLEDGED.unpack(self._connection.recv_bytes())
                    with self._changed:
                        self._items -= messages
                        self._bytes -= size_bytes
                        self._changed.notify()
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        time.sleep(_GRACE_S)
        end_group()
        os._exit(1)


def end_group() -> None:
    """Ends this process and the programs that its generators have started, which have its group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


class Output:
    """Where all that Python prints in this process goes from now on: to stderr, line by line.

    Attributes:
      printing: who prints; begins each line.
    """

    def __init__(self, printing: str):
        """Takes the place of both streams."""
        self.printing = printing
        self._lines = _Lines(self), _Lines(self)
        self._streams = sys.stdout, sys.stderr = tuple(
            # Unbuffered, so that whoever prints next does not end a line that another has begun.
            io.TextIOWrapper(each, "utf-8", "backslashreplace", "\n", write_through=True)  # type: ignore[type-var]
            for each in self._lines
        )

    def end(self) -> None:
        """Writes what was begun."""
        for stream in (*self._streams, sys.stdout, sys.stderr):
            # The user's code may have closed it, or put anything in its place.
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        for each in self._lines:
            each.end()


class _Lines(io.RawIOBase):
    """Writes a line by one call, so that those of several processes do not mix.

    Of a line that is drawn again and again, such as a progress bar, only its last state is written.
    """

    def __init__(self, output: Output):
        self._output = output
        self._begun: dict[str, bytes] = {}  # by who prints

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:  # For programs that it starts, which write there themselves.
        return _STDERR

    def write(self, data: bytes) -> int:  # type: ignore[override]
        printing = self._output.printing
        *lines, begun = (self._begun.pop(printing, b"") + bytes(data)).split(b"\n")
        for line in lines:
            _write_line(printing, line)
        begun = begun[begun.rstrip(b"\r").rfind(b"\r") + 1 :]
        if len(begun) > _MOST_LINE_BYTES:
            _write_line(printing, begun)
        elif begun:
            self._begun[printing] = begun
        return len(data)

    def end(self) -> None:
        for printing, begun in self._begun.items():
            if begun.strip():
                _write_line(printing, begun)
        self._begun.clear()


def _write_line(printing: str, line: bytes) -> None:
    said = line.rstrip(b"\r").rpartition(b"\r")[2]
    os.write(_STDERR, f"{printing}: ".encode() + said + b"\n")


def run(work: Work, link: Link, output: Output) -> None:
    """Runs the generators to their ends."""
    try:
        make = work.load()
    except BaseException as error:  # The module is the user's own: it may raise anything.
        link.send(FAILED, NO_SHARD, 0, _describe(error))
        return
    shards = {shard: _iterate(make, shard, work) for shard in work.shards}
    try:
        while shards:
            for shard in list(shards):
                output.printing = f"shard {shard}"
                kind, item, body = next(shards[shard])
                link.send(kind, shard, item, body)
                if kind in (END, FAILED):
                    del shards[shard]
    finally:
        for generator in shards.values():
            generator.close()


def _iterate(
    make: Callable[[int, int], Any], shard: int, work: Work
) -> Generator[tuple[str, int, Any], None, None]:
    """What a shard's generator yields, as it is sent; then how it ended."""
    item = 0
    try:
        for each in itertools.islice(make(shard, work.of), work.most_items):
            try:
                kind, body = ITEM, work.encode(each)
            except WrongItem as error:
                kind, body = WRONG, str(error)
            yield kind, item, body
            item += 1
    except GeneratorExit:
        raise
    except BaseException as error:  # So may a generator, `sys.exit` included.
        yield FAILED, item, _describe(error)
    else:
        yield END, item, None


def _describe(error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__]
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
    what = str(error) if isinstance(error, UserError) else describe_error(error)
    return Failure(what, where, "".join(traceback.format_exception(error)))


def main(link: int, memory: int, size_bytes: int, parent: int) -> None:
    """Runs a worker.

    Args:
      link: descriptor of the connection to the parent, which first sends the `Work`.
      memory: descriptor of the memory that is shared with it.
      size_bytes: of that.
      parent: its process.
    """
    connection, ring = Connection(link), Ring(memory, size_bytes)
    os.close(memory)
    output = Output("generator")
    received = connection.recv_bytes()
    answers = Link(connection, ring, parent)
    with contextlib.suppress(_Stopped, OSError):
        try:
            work = pickle.loads(received)
        except BaseException as error:  # It imports the user's modules.
            answers.send(FAILED, NO_SHARD, 0, _describe(error))
        else:
            run(work, answers, output)
    output.end()
    os._exit(0)  # Threads that the user's code has started must not keep it from ending.
