"""A lock in an output folder: two runs that write there at once would spoil each other's results.

The operating system's lock on the file is what counts: it ends with the process that holds it. But
not every network file system shows it to other machines, or has one at all, so the file also says
who holds it, and a running holder touches it every few seconds. A random token tells one holder's
file from another's: only the holder deletes it, or whoever has found that very holder dead, and a
holder that was taken for dead finds another's token there.

The package `filelock` was not taken for this: it has the system's lock or a lease, not both, and it
takes a lease for dead only after watching it for all of its time, where this says so at once.
"""

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import functools
import json
import os
import socket
import stat
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated

import psutil
import pydantic

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

LOCK = ".lock"
TOUCH_EVERY_S = 15.0
# A holder on another machine counts as dead when the file has been untouched this long.
STALE_S = 120.0
# Between making the file and writing to it: 0.1 ms locally, a request over a network.
_WRITTEN_WITHIN_S = 5.0


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who holds a lock.

    Attributes:
      host: name of the machine.
      boot: identifies the boot of the machine or container, since host names repeat.
      pid: its process.
      started_s: when the process started, in seconds since 1970, since process ids repeat.
      since: when the lock was taken, for messages.
      token: of this holding of the lock.
    """

    host: str
    boot: str
    pid: Annotated[int, pydantic.Field(gt=0, lt=2**31)]
    started_s: float
    since: str
    token: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")]  # It becomes a file's name.


_HOLDER = pydantic.TypeAdapter(Holder)


@contextlib.contextmanager
def hold_lock(output_dir: str) -> Iterator[Callable[[], None]]:
    """Holds an output folder's lock while the block runs; takes over a dead holder's.

    An object store has no locks, so a URI is not locked.

    Yields:
      A function to call before a step that spoils what another run writes: it raises UserError if
      another run has taken over the lock.

    Raises:
      UserError: if another run holds it, or the folder cannot be locked.
    """
    if not files.is_local(output_dir):
        yield lambda: None
        return
    path = os.path.join(output_dir, LOCK)
    try:
        own = _this_process()
        os.makedirs(output_dir, exist_ok=True)
        while (descriptor := _create(path, own)) is None:
            _remove_dead(path, output_dir)
    except OSError as error:
        raise UserError(
            f"Cannot lock {output_dir!r}: {error.strerror} ({path}); fix that, or choose "
            "another --output."
        ) from error
    except psutil.Error as error:
        raise UserError(
            f"Cannot lock {output_dir!r}: /proc is of another process namespace ({error.msg}); "
            "remount it (`unshare --mount-proc`)."
        ) from error
    try:
        with _touched(descriptor):
            yield functools.partial(_check, path, own.token, output_dir)
    finally:
        with contextlib.suppress(OSError):  # The block's error says more.
            _remove(path, own.token)  # While it is still locked by the system.
        os.close(descriptor)


def _create(path: str, own: Holder) -> int | None:
    """Makes the file and locks it; returns its descriptor, or None if there is one already."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return None
    try:
        is_locked = _lock(descriptor)
        content = json.dumps(dataclasses.asdict(own)).encode()
        while content:  # Less may be written than there is, and only the next call says why.
            content = content[os.write(descriptor, content) :]
        if is_locked and _read_token(path) == own.token:
            return descriptor
        _remove(path, own.token)  # Another run has looked at it while it was empty.
    except BaseException:
        with contextlib.suppress(OSError):  # Half a file would be taken for another run's.
            if (token := _read_token(path)) in (None, own.token):
                _remove(path, token)
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _remove_dead(path: str, output_dir: str) -> None:
    """Removes the file if nobody holds it any more; raises UserError if somebody does."""
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return
    try:
        is_locked = _lock(descriptor)
        holder = _read_holder(descriptor)
        if not is_locked or _is_alive(holder, descriptor, path):
            raise _held(holder, output_dir)
        if not _remove(path, holder.token if holder else None):
            raise _held(None, output_dir)
    finally:
        os.close(descriptor)


def _remove(path: str, token: str | None) -> bool:
    """Deletes the file if it has this token; returns False if another run is about to do so.

    Whoever wants to, even the holder itself, first makes a file named after the token, which only
    one can do. So the file is still the same when it is deleted.
    """
    claim = f"{path}.{token}.tmp"
    try:
        os.close(os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):
            if _age_s(os.stat(claim), path) > STALE_S:  # Who made it was killed before it was done.
                os.remove(claim)
        return False
    try:
        if _read_token(path) == token:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    finally:
        os.remove(claim)
    return True


def _check(path: str, token: str, output_dir: str) -> None:
    if _read_token(path) != token:
        raise UserError(
            f"Another run has taken over {output_dir!r}, since this one did not show for "
            f"{STALE_S:.0f} s that it was alive; let that one finish, or choose another --output."
        )


def _open(path: str) -> int:
    """Opens a lock, which must be a regular file, so that nothing else is read or changed."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, os.O_RDWR | flags)  # Some systems lock only what is written.
    except PermissionError:  # It is another person's.
        descriptor = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise files.NotRegularError(errno.EINVAL, "it is not a regular file", path)
    return descriptor


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # A file system without locks: rely on what the file says.
        return True
    return True


def _read_token(path: str) -> str | None:
    """The token in the file; None if there is no such file, or no token in it."""
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return None
    try:
        holder = _read_holder(descriptor)
    finally:
        os.close(descriptor)
    return holder.token if holder else None


def _read_holder(descriptor: int) -> Holder | None:
    """The holder named in the file; None if it cannot be read."""
    try:
        return _HOLDER.validate_json(os.pread(descriptor, 4096, 0), strict=True)
    except ValueError:
        return None


def _is_alive(holder: Holder | None, descriptor: int, path: str) -> bool:
    age_s = _age_s(os.fstat(descriptor), path)
    if holder is None:
        return age_s < _WRITTEN_WITHIN_S
    this = _this_process()
    if (holder.host, holder.boot) != (this.host, this.boot):
        return age_s < STALE_S
    try:
        process = psutil.Process(holder.pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return not is_zombie and abs(process.create_time() - holder.started_s) < 1
    except psutil.NoSuchProcess:
        return False


def _age_s(status: os.stat_result, path: str) -> float:
    """How far a file's time is from now, either way, by the clock that gives files their times.

    That is a server's on a network file system. A time to come is of a clock that was set back
    since: whoever is alive will soon touch the file again.
    """
    with tempfile.TemporaryFile(dir=os.path.dirname(path)) as new:
        return abs(os.fstat(new.fileno()).st_mtime - status.st_mtime)


def _this_process() -> Holder:
    now = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    started_s = psutil.Process().create_time()
    token = uuid.uuid4().hex
    return Holder(socket.gethostname(), _read_boot(), os.getpid(), started_s, now, token)


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
