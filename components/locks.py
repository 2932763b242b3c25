"""A lock in an output folder: two runs that write there at once would spoil each other's results.

The operating system's lock on the file is what counts: it ends with the process that holds it. But
not every network file system shows it to other machines, so the file also says who holds it, and a
running holder touches it every few seconds.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator

import psutil

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

LOCK = ".lock"
TOUCH_EVERY_S = 15.0
# A holder on another machine counts as dead when the file has been untouched this long.
STALE_S = 120.0


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who holds a lock.

    Attributes:
      host: name of the machine.
      boot: identifies the boot of the machine or container, since host names repeat.
      pid: its process.
      started_s: when the process started, in seconds since 1970, since process ids repeat.
      since: when the lock was taken, for messages.
    """

    host: str
    boot: str
    pid: int
    started_s: float
    since: str


@contextlib.contextmanager
def hold_lock(output_dir: str) -> Iterator[None]:
    """Holds an output folder's lock while the block runs; takes over a dead holder's.

    An object store has no locks, so a URI is not locked.

    Raises:
      UserError: if another run holds it.
    """
    if not files.is_local(output_dir):
        yield
        return
    os.makedirs(output_dir, exist_ok=True)
    path = os.path.join(output_dir, LOCK)
    descriptor = _open_locked(path, output_dir)
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(dataclasses.asdict(_this_process())).encode(), 0)
        with _touched(descriptor):
            yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)  # While it is still locked: see `_open_locked`.
        os.close(descriptor)


def _open_locked(path: str, output_dir: str) -> int:
    """Opens and locks the file; makes sure that it is still there and that nobody holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            is_locked = _lock(descriptor)
            holder = _read_holder(descriptor)
            if not is_locked or (holder and _is_alive(holder, descriptor)):
                raise _held(holder, output_dir)
            if _is_same_file(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # Its last holder removed it in between.


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # A file system without locks: rely on what the file says.
        return True
    return True


def _is_same_file(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> Holder | None:
    """The holder named in the file; None if it cannot be read."""
    try:
        return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):
        return None


def _is_alive(holder: Holder, descriptor: int) -> bool:
    this = _this_process()
    if (holder.host, holder.boot) != (this.host, this.boot):
        return time.time() - os.fstat(descriptor).st_mtime < STALE_S
    try:
        process = psutil.Process(holder.pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return not is_zombie and abs(process.create_time() - holder.started_s) < 1
    except psutil.NoSuchProcess:
        return False


def _this_process() -> Holder:
    now = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    started_s = psutil.Process().create_time()
    return Holder(socket.gethostname(), _read_boot(), os.getpid(), started_s, now)


def _read_boot() -> str:
    """Two containers on a machine may share a name, but not a process namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux
        return str(int(psutil.boot_time()))


@contextlib.contextmanager
def _touched(descriptor: int) -> Iterator[None]:
    """Touches the file every few seconds while the block runs."""
    ended = threading.Event()

    def touch() -> None:
        while not ended.wait(TOUCH_EVERY_S):
            with contextlib.suppress(OSError):
                os.utime(descriptor)

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _held(holder: Holder | None, output_dir: str) -> UserError:
    who = f" (process {holder.pid} on {holder.host}, since {holder.since})" if holder else ""
    return UserError(
        f"Another run{who} is writing to {output_dir!r}; wait for it, end it, or choose another "
        f"--output. (If it died on another machine, its lock ends after {STALE_S:.0f} s.)"
    )
