"""Ctrl-C, SIGTERM and SIGHUP: one line and an exit code within seconds, whatever is running.

An exception tells the main thread, so that scratch folders are deleted and a job elsewhere is
cancelled. It may not get through: the main thread may be waiting in TensorFlow's C++ for other
threads, or a library may take the exception for an error of its own and carry on. So a separate
thread gets the signal as well, and ends the process if the main thread has not done so after some
seconds. Nothing is lost by that: what is on disk is complete or will be redone, as after `kill -9`.
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
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}

_asked = threading.Event()
_ending = threading.Lock()
_first = signal.SIGINT  # The first signal received, once there is one.
_is_raised = False


class Interrupted(KeyboardInterrupt):
    """The process has been asked to end. (Beam copies an exception only if it has a text.)"""


def listen() -> None:
    """Makes these signals end this process. To be called once, by the main thread.

    One that is ignored already stays so: SIGHUP under `nohup`, Ctrl-C in a script's background.
    """
    numbers = [number for number in _NAMES if signal.getsignal(number) != signal.SIG_IGN]
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_stop_listening)
    terminal = os.dup(2)  # A command redirects what libraries write to stderr to its log.
    threading.Thread(target=_watch, args=(heard, terminal), daemon=True).start()
    for number in numbers:
        signal.signal(number, _interrupt)


def was_interrupted() -> bool:
    """Whether this process is about to end: an error may come from that, and does not matter."""
    return _asked.is_set()


def end_if_interrupted() -> None:
    """Ends the process if it was asked to end, whatever the exception has turned into."""
    if was_interrupted():
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        _end(2)


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    """Called by Python in the main thread, at its next step."""
    global _first, _is_raised
    if not _is_raised:
        _first, _is_raised = signal.Signals(number), True
        _asked.set()
        raise Interrupted(f"by {_NAMES[_first]}")


def _watch(heard: int, terminal: int) -> None:
    """Waits for a signal, which arrives here at once; ends the process if nothing else does."""
    global _first
    _first = _await_signal(heard, None) or _first
    until_s = time.monotonic() + GRACE_S
    _asked.set()
    time.sleep(_TWICE_S)
    while select.select([heard], [], [], 0)[0]:
        os.read(heard, 1)
    _await_signal(heard, until_s)  # A second signal ends it at once.
    _end(terminal)


def _await_signal(heard: int, until_s: float | None) -> signal.Signals | None:
    """The next signal that ends the process; None if none comes in time."""
    while until_s is None or time.monotonic() < until_s:
        left_s = None if until_s is None else max(0, until_s - time.monotonic())
        if select.select([heard], [], [], left_s)[0]:
            number = os.read(heard, 1)[0]
            if number in _NAMES:
                return signal.Signals(number)
    return None


def _end(terminal: int) -> NoReturn:
    """Deletes temporary files, ends child processes, and says what happened."""
    _ending.acquire()  # Only one thread does this.
    _end_children()
    temporary.delete_folder()
    line = f"Stopped by {_NAMES[_first]}; what is finished is kept; run the same command again.\n"
    if os.isatty(terminal):  # Clear the line with ^C and the rest of a bar; show the cursor.
        line = f"\r\x1b[K\x1b[?25h{line}"
    with contextlib.suppress(OSError):
        os.write(terminal, line.encode())
    os._exit(128 + _first)


def _end_children() -> None:
    """Ends the workers and job servers of a local run."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.terminate()


def _stop_listening() -> None:
    """For forked children, which share the pipe and would end this process."""
    signal.set_wakeup_fd(-1)
    for number in _NAMES:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)
