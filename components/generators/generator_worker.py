"""The process that runs Python generators, and sends their items to the parent.

It steps its shards' generators in turn, so what it sends has one order, whatever the number of such
processes. It ends when the parent does, however that ends.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.processes import Link

ITEM, WRONG, END, FAILED = "item", "wrong", "end", "failed"
"""What is sent: an item; one of a wrong type, and why; the end of a shard; how one failed."""
NO_SHARD = -1  # of what fails before any generator is called

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


def watch_parent(link: Link) -> None:
    """Ends this process when the parent wants no more, or has ended: it sends nothing else.

    A generator that is suspended is closed by then: what it yields next cannot be sent.
    """
    link.wait()
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
    text = line.rstrip(b"\r").rpartition(b"\r")[2]
    os.write(_STDERR, f"{printing}: ".encode() + text + b"\n")


def run(received: bytes, link: Link, output: Output) -> None:
    """Runs the generators to their ends; raises OSError if the parent wants no more."""

    def send(kind: str, shard: int, item: int, body: Any) -> None:
        link.send((kind, shard, item, body))

    try:  # Both import the user's modules, which may raise anything.
        work: Work = pickle.loads(received)
        make = work.load()
    except BaseException as error:
        send(FAILED, NO_SHARD, 0, _describe(error))
        return
    shards = {shard: _iterate(make, shard, work) for shard in work.shards}
    try:
        while shards:
            for shard in list(shards):
                output.printing = f"shard {shard}"
                kind, item, body = next(shards[shard])
                send(kind, shard, item, body)
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


def main(link: Link) -> None:
    """Runs a worker, to which the parent sends the `Work`, pickled twice."""
    output = Output("generator")
    received = link.receive()
    threading.Thread(target=watch_parent, args=(link,), daemon=True).start()
    with contextlib.suppress(OSError):
        run(received, link, output)
    output.end()
    os._exit(0)  # Threads that the user's code has started must not keep it from ending.
