"""Ctrl-C and SIGTERM: one line and an exit code within seconds, wherever the work stands.

The main thread is told by an exception, so that scratch folders go and a job elsewhere is
cancelled. It may not hear of it: it waits in TensorFlow's C++ for threads that wait themselves, or
a library takes the exception for an error of its own and goes on. So a thread of its own hears of
the signal as well, and ends the process if the main thread has not after some seconds. Nothing is
lost by that: what is on the disk is whole or is done again, as after `kill -9`.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
import types
from typing import NoReturn

from image_pipeline import temporary

# A container is killed ten seconds after its SIGTERM.
GRACE_S = 8.0
# `timeout` and other programs send a signal to the process and to its group.
_TWICE_S = 0.5
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

_asked = threading.Event()
_ending = threading.Lock()
_first = signal.SIGINT  # The signal that came first, once one has.
_is_raised = False


class Interrupted(KeyboardInterrupt):
    """Somebody wants this process to end. (Beam copies an exception only if it has a text.)"""


def listen() -> None:
    """From now on, Ctrl-C and SIGTERM end this process. To be called once, by the main thread."""
    numbers = [number for number in _NAMES if signal.getsignal(number) != signal.SIG_IGN]
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_stop_listening)
    terminal = os.dup(2)  # A command sends what libraries say there to its log.
    threading.Thread(target=_watch, args=(heard, terminal), daemon=True).start()
    for number in numbers:
        signal.signal(number, _interrupt)


def was_interrupted() -> bool:
    """Whether this process is about to end: an error may be of that, and is of no interest."""
    return _asked.is_set()


def end_if_interrupted() -> None:
    """Ends the process if somebody asked for it, whatever has come of that."""
    if was_interrupted():
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        _end(2)


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    """Python calls it in the main thread, when that comes to its next step."""
    global _first, _is_raised
    if not _is_raised:
        _first, _is_raised = signal.Signals(number), True
        _asked.set()
        raise Interrupted(f"by {_NAMES[_first]}")


def _watch(heard: int, terminal: int) -> None:
    """Waits for a signal, which arrives here at once; ends the process if nobody else does."""
    global _first
    _first = _await_signal(heard, None) or _first
    until_s = time.monotonic() + GRACE_S
    _asked.set()
    time.sleep(_TWICE_S)
    while select.select([heard], [], [], 0)[0]:
        os.read(heard, 1)
    _await_signal(heard, until_s)  # Another one: at once.
    _end(terminal)


def _await_signal(heard: int, until_s: float | None) -> signal.Signals | None:
    """The next signal that ends the process; None if there is none in time."""
    while until_s is None or time.monotonic() < until_s:
        left_s = None if until_s is None else max(0, until_s - time.monotonic())
        if select.select([heard], [], [], left_s)[0]:
            number = os.read(heard, 1)[0]
            if number in _NAMES:
                return signal.Signals(number)
    return None


def _end(terminal: int) -> NoReturn:
    """Takes away what is temporary and what this process started, and says what happened."""
    _ending.acquire()  # By one thread only.
    _end_children()
    temporary.delete_folder()
    line = f"Stopped by {_NAMES[_first]}; what is finished is kept: run the same command again.\n"
    if os.isatty(terminal):  # The line with ^C and with what is left of a bar; and the cursor.
        line = f"\r\x1b[K\x1b[?25h{line}"
    with contextlib.suppress(OSError):
        os.write(terminal, line.encode())
    os._exit(128 + _first)


def _end_children() -> None:
    """Workers and job servers of a local run."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.terminate()


def _stop_listening() -> None:
    """A copy of this process has the same pipe, and would end this one."""
    signal.set_wakeup_fd(-1)
    for number in _NAMES:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)
