"""Processes of this interpreter's own, for what may hang, crash or take all memory.

A child is a new interpreter. A fork would copy locks that other threads hold; and `multiprocessing`
imports the user's script once more in what it starts, and waits without a limit within a message.
"""

import contextlib
import importlib
import json
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

import numpy as np

_LOOK_S = 0.5
_END_S = 2.0  # A generator takes one at most.
_SIZE = struct.Struct("<Q")  # of what follows: a message, pickled
# The parent's own path, so that a module is found where the parent would find it.
_SCRIPT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from image_pipeline.components import processes; processes.serve(*sys.argv[2:])"
)
_WHY: dict[int, str] = {
    signal.SIGKILL: ", as the system does where memory runs out",
    signal.SIGXCPU: ", for it took more processor time than it may",
}


class Child:
    """A process to talk with, which ends at the latest when this one does."""

    def __init__(self, main: str, *arguments: str, buffer_bytes: int | None = None):
        """Starts it.

        Args:
          main: `MODULE:FUNCTION`, which is called there with a `Link` and the arguments.
          buffer_bytes: what it can have sent that was not received yet, if the system allows as
            much; None for what the system gives.
        """
        self._owner = os.getpid()
        self._link, its = socket.socketpair()
        with its:
            if buffer_bytes is not None:
                its.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
            own_path = json.dumps([*map(str, sys.path)])
            own = (own_path, str(its.fileno()), str(self._owner))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SCRIPT, *own, main, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=2,  # What a command prints there may be read by a program.
                pass_fds=(its.fileno(),),
                process_group=0,  # Ctrl-C is the parent's; it ends its children.
                # A TensorFlow in each would take the GPU's memory from the one that trains.
                env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
            )

    def __del__(self) -> None:
        """Ends one that nobody talks with any more, if it has started."""
        if hasattr(self, "_process"):
            self.hang_up()
            self.end()

    def send(self, message: Any) -> None:
        """Sends what can be pickled; if the child has ended, `receive` says so."""
        self._link.settimeout(None)
        with contextlib.suppress(OSError):
            self._link.sendall(pickle.dumps(message, 5))

    def receive(self, until_s: float) -> Any:
        """Waits for the next message, until `time.monotonic()` gives this.

        Raises:
          TimeoutError: if it has not come whole by then.
          EOFError, ConnectionError: if the child has ended.
        """
        self._link.settimeout(_LOOK_S)
        (size_bytes,) = _SIZE.unpack(self._read(_SIZE.size, until_s))
        return pickle.loads(self._read(size_bytes, until_s))

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

    def find_end(self) -> int | None:
        """The exit code of a child that has ended, negative the signal; None if it goes on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_END_S)
        return None

    def tell_end(self) -> str:
        """How it has ended, as the end of a sentence."""
        code = self.find_end()
        if code is None:
            return "closed its connection"
        if code >= 0:
            return f"ended with exit code {code}"
        return f"was killed by signal {-code}{_WHY.get(-code, '')}"

    def hang_up(self) -> None:
        """Tells it that no more is wanted."""
        if os.getpid() == self._owner:
            self._link.close()

    def end(self) -> None:
        """Waits for its end, or ends it; a fork of the parent leaves it alone."""
        if os.getpid() == self._owner and self.find_end() is None:
            self.kill()

    def kill(self) -> None:
        """Ends it, and what it has started, at once; a fork of the parent leaves it alone."""
        if os.getpid() == self._owner:
            if self._process.poll() is None:  # Or its number may be another one's by now.
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Link:
    """A child's connection to its parent."""

    def __init__(self, descriptor: int, parent: int):
        """Takes the socket's descriptor and the parent's process."""
        self._socket, self._parent = socket.socket(fileno=descriptor), parent

    def send(self, message: Any) -> None:
        """Sends what can be pickled, and waits while the parent is too far behind.

        Raises:
          OSError: if the parent wants no more.
        """
        pickled = pickle.dumps(message, 5)
        self._socket.sendall(_SIZE.pack(len(pickled)))
        self._socket.sendall(pickled)

    def receive(self) -> Any:
        """Waits for the next message; raises EOFError if the parent wants no more, or has ended."""
        self.wait()
        if os.getppid() != self._parent:  # A fork of it may hold the socket.
            raise EOFError
        return pickle.load(self._socket.makefile("rb"))

    def wait(self) -> None:
        """Waits until the parent has sent something, wants no more, or has ended."""
        heard = select.poll()  # Its number may be larger than `select` takes.
        heard.register(self._socket, select.POLLIN)
        while os.getppid() == self._parent and not heard.poll(1e3 * _LOOK_S):
            pass


def serve(descriptor: str, parent: str, main: str, *arguments: str) -> None:
    """What a child runs; see `Child`."""
    module, _, function = main.partition(":")
    run = getattr(importlib.import_module(module), function)
    run(Link(int(descriptor), int(parent)), *arguments)
