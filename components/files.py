"""Files anywhere: plain paths through the operating system, URIs (`gs://`, …) through `stores`.

Paths are `str`; names that are not UTF-8 are as `os.fsdecode` returns them.
"""

import concurrent.futures
import contextlib
import errno
import functools
import glob
import io
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any, BinaryIO

from image_pipeline.components.errors import UserError
from image_pipeline.components.names import printable
from image_pipeline.components.stores import remote
from image_pipeline.components.threads import start

_GROWTH_BYTES = 2**16
_SENT_BYTES = 2**24  # A disk of 500 MB/s writes it in 30 ms.
CODE_PREFIXES = ("source:", "rows:", "generator:")
"""What is given as images begins so where it names a person's own code."""
LASTING = "IMAGE_PIPELINE_TMPDIR"
"""The environment variable that names the folder of temporary files in which a command makes its
own, which is deleted with it; what outlives the command is there. Workers inherit it."""

_PREFIXES, _NAMES = ("tfrecord:",), ("tfds:", *CODE_PREFIXES)
_NOT_WRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
_NOT_WRITABLE |= {errno.EIO}


def is_local(path: str) -> bool:
    """Tells whether the path belongs to the operating system."""
    return "://" not in path


def as_text(path: Any) -> Any:
    """The text of a `pathlib.Path`, and of those in a list; what is neither stays as it is."""
    if isinstance(path, list | tuple) and any(isinstance(each, os.PathLike) for each in path):
        return [as_text(each) for each in path]
    return os.fspath(path) if isinstance(path, os.PathLike) else path


def join(folder: str, *names: str) -> str:
    """Joins a folder and names with a slash."""
    return "/".join([folder.rstrip("/"), *names])


def split_prefix(path: str) -> tuple[str, str]:
    """What says how images are found, as in `tfrecord:folder/train-*`, and the path behind it.

    Of a name such as `tfds:mnist`, all is the prefix.
    """
    if path.startswith(_NAMES):
        return path, ""
    prefix = next(filter(path.startswith, _PREFIXES), "")
    return prefix, path[len(prefix) :]


def make_absolute(path: str) -> str:
    """The absolute path; a URI, and a name of images that is not a path, stays as it is."""
    prefix, rest = split_prefix(path)
    return prefix + os.path.abspath(rest) if rest and is_local(rest) else path


def is_known_to_tensorflow(path: str) -> bool:
    """Tells whether TensorFlow reads and writes where the path is."""
    return is_local(path) or path.startswith("gs://")


def check_known_to_tensorflow(path: str, name: str, way_out: str = "use another place") -> None:
    """Makes sure of what TensorFlow itself reads or writes; `name` says what it is.

    Raises:
      UserError: if TensorFlow does not know its store.
    """
    if not is_known_to_tensorflow(path):
        raise UserError(
            f"{name} must be on a local disk or at a gs:// URI, since TensorFlow itself cannot "
            f"read or write {path}; {way_out}."
        )


def check_text(path: str, name: str) -> None:
    """Makes sure that a path is UTF-8: Beam, TensorFlow and Arrow take no other; `name` is its.

    Raises:
      UserError: if it is not.
    """
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{name} must have a path that is UTF-8, for Beam, TensorFlow and Arrow take no other, "
            f"got '{printable(path)}'; rename it, or, if it is there, make a link to it with "
            "another name (ln -s) and give that."
        ) from error


def count_threads(folder: str) -> int:
    """How many small files of a folder to read or write at a time: more for an object store."""
    return 1 if is_local(folder) else 8


def check_answers(path: str) -> None:
    """Makes sure, if the path is a URI, that its store answers and has the bucket.

    Raises:
      UserError: if not, after `remote.ANSWER_TIMEOUT_S` at the latest.
    """
    if not is_local(path):
        remote.check_answers(path)


def open_input(path: str) -> BinaryIO:
    """Opens a file for reading, bytes as they are (no decompression by file ending).

    Of what is behind a URI, 8 MiB are held at a time.

    Raises:
      FileNotFoundError: if there is no such file.
      NotRegularError: if it is a pipe or a device, which may never end.
    """
    if not is_local(path):
        return remote.open_input(path)
    refuse_pipe(path)
    return open(path, "rb")


def refuse_pipe(path: str) -> None:
    """Raises NotRegularError for a local pipe or device: opening it might wait for good."""
    if not stat.S_ISDIR((status := os.stat(path)).st_mode):
        _check_regular(status, path)


def read_file(path: str, start: int = 0, end: int | None = None) -> bytes:
    """Reads a file, or its bytes from `start` up to `end`.

    On an object store this takes one request.

    Raises:
      FileNotFoundError: if there is no such file.
      NotRegularError: if it is a pipe or a device, which may never end.
      UserError: if its store refuses to give it, or does not answer.
    """
    if not is_local(path):
        return remote.read_file(path, start, end)
    refuse_pipe(path)
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)
    except OSError as error:  # Of a descriptor the system does not say whose it is.
        error.filename = error.filename or path
        raise


class NotRegularError(OSError):
    """The file is not a regular one, or has no data now: reading it might never end."""


class OutsideError(OSError):
    """The file is not in the folder that it must be in."""


def read_regular_file(path: str, most_bytes: int, within: str | None = None) -> bytes:
    """Reads at most the first `most_bytes` bytes of a local file that anyone may have put there.

    A pipe, a terminal or a device is not opened; what only looks like a file, such as a kernel's
    log, is not waited for.

    Args:
      path: of the file.
      most_bytes: how many are read at most.
      within: the folder that the opened file must be in, wherever links have led meanwhile; None
        for any.

    Raises:
      FileNotFoundError: if there is no such file.
      NotRegularError: if it is not a regular file, or reading it would wait for data.
      OutsideError: if it is in another folder.
    """
    _check_regular(os.stat(path), path)  # Merely opening a device may have an effect.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        _check_regular(status, path)
        if within is not None:
            try:  # Where the opened file is, as Linux tells, and no other system does.
                opened = os.readlink(f"/proc/self/fd/{descriptor}")
            except OSError:
                opened = ""
            if not opened.startswith("/"):  # Or it is not seen from the root of this process.
                is_in = is_below(os.path.realpath(path), os.path.realpath(within))
            else:
                is_in = is_below(opened, _resolve(within))
                is_in = is_in or is_below(opened, _resolve.__wrapped__(within))
            if not is_in:
                raise OutsideError(errno.EXDEV, "it is in another folder", path)
        blocks, left, size_bytes = [], most_bytes, status.st_size
        # All in one block, plus a byte to see the end; a file that grows takes more blocks.
        while left and (block := os.read(descriptor, asked := min(left, size_bytes + 1))):
            blocks.append(block)
            if len(block) == size_bytes < asked:
                break
            left -= len(block)
            size_bytes = max(size_bytes - len(block), _GROWTH_BYTES)
        return b"".join(blocks)
    except BlockingIOError as error:
        raise NotRegularError(error.errno, "reading it would wait for data", path) from error
    finally:
        os.close(descriptor)


def _check_regular(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(errno.EINVAL, "it is not a regular file", path)


@functools.lru_cache(maxsize=16)  # A link that is changed is asked again.
def _resolve(folder: str) -> str:
    """Where a folder is, in the letters that the kernel says it with: case may not matter there."""
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def is_below(path: str, folder: str) -> bool:
    """Tells by their names whether an absolute path or a URI is a folder, or in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def read_blocks(path: str, block_bytes: int = 8 * 2**20) -> Iterator[bytes]:
    """Reads a file block by block; on an object store each takes one request."""
    start = 0
    while block := read_file(path, start, start + block_bytes):
        yield block
        start += len(block)
        if len(block) < block_bytes:
            return


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[BinaryIO]:
    """Opens a file that appears under its name only when the block ends without an error.

    Locally: a temporary file beside it, flushed to the disk, then renamed. To a store a temporary
    file is sent, which is there when all of it is.

    Raises:
      UserError: if the disk is full, or writing there is not allowed.
    """
    if not is_local(path):
        with remote.create(path) as file:
            yield file
        return
    temporary = _name_temporary(path, uuid.uuid4().hex)
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with io.BufferedWriter(_SteadyFile(temporary)) as file:
            yield file  # type: ignore[misc]
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        # What the block reads in the meantime has a name of its own.
        own = (None, temporary, path)
        if isinstance(error, OSError) and error.errno in _NOT_WRITABLE and error.filename in own:
            reason = os.strerror(error.errno)
            raise UserError(
                f"Cannot write {path}: {reason}; fix that and run again; what is finished is kept."
            ) from error
        raise


class _SteadyFile(io.FileIO):
    """Sends what is written to the disk in the meantime, so that the end has little to wait for."""

    def __init__(self, path: str):
        super().__init__(path, "wb")
        self._unsent = 0
        self._sending: concurrent.futures.Future[None] | None = None

    def write(self, data: Any) -> int:
        """Writes; an error in sending earlier data is raised here, or when the file is closed."""
        written = super().write(data)
        self._unsent += written
        if self._unsent >= _SENT_BYTES and (self._sending is None or self._sending.done()):
            self._await_sent()
            self._unsent, self._sending = 0, start(functools.partial(os.fsync, self.fileno()))
        return written

    def close(self) -> None:
        """Closes the file once nothing is being sent."""
        try:
            self._await_sent()
        finally:
            super().close()

    def _await_sent(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.result()


def check_writable(path: str) -> None:
    """Checks that a file can be written, without writing it; in a store, that its bucket answers.

    Raises:
      UserError: if it cannot.
    """
    if not is_local(path):
        check_answers(path)
        return
    try:
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with tempfile.TemporaryFile(dir=os.path.dirname(path) or "."):
            pass
    except OSError as error:
        raise UserError(f"Cannot write {path!r}: {error.strerror}; choose another file.") from error


def delete_unfinished(*paths: str) -> None:
    """Deletes what processes that were killed while they wrote these files have left beside them.

    Nobody else may be writing them. A store has nothing of a file that was not finished.
    """
    for path in filter(is_local, paths):
        pattern = _name_temporary(glob.escape(path), "[0-9a-f]" * 32)
        delete(*glob.glob(pattern, include_hidden=True))


def _name_temporary(path: str, unique: str) -> str:
    return f"{path}.{unique}.tmp"


def write_file(path: str, content: bytes) -> None:
    """Writes a file that appears whole; raises as `write_atomically`."""
    with write_atomically(path) as file:
        file.write(content)


def exists(path: str) -> bool:
    """Tells whether there is a file or folder at the path."""
    return os.path.exists(path) if is_local(path) else remote.exists(path)


def is_file(path: str) -> bool:
    """Tells whether there is a file at the path: one request, where `exists` may take two."""
    return os.path.isfile(path) if is_local(path) else remote.is_file(path)


def stat_file(path: str) -> tuple[int, int]:
    """A file's size in bytes, and its time of change in ns since 1970, or 0.

    Raises:
      FileNotFoundError: if there is no such file.
    """
    if is_local(path):
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns
    size_bytes, modified_s = remote.stat(path)
    return size_bytes, int(modified_s * 1e9)


def list_files(folder: str, pattern: str) -> list[str]:
    """The paths below a folder that match a shell pattern, sorted."""
    if is_local(folder):
        return sorted(glob.glob(join(glob.escape(folder), pattern)))
    return remote.list_files(folder, pattern)


def list_latest(folder: str, name: str) -> list[str]:
    """The files of a name in the folders of a folder, the one that was written last first."""
    return sorted(
        list_files(folder, f"*/{name}"), key=lambda each: stat_file(each)[1], reverse=True
    )


def list_remote_tree(folder: str) -> Iterator[tuple[str, int, int]]:
    """All files below a URI, sorted: path relative to it, size in bytes, modification time in ns.

    Raises:
      UserError: if there is no such bucket, or its store refuses or does not answer.
    """
    for uri, size_bytes, modified_s in remote.list_tree(folder):
        yield uri[len(folder.rstrip("/")) + 1 :], size_bytes, int(modified_s * 1e9)


def delete(*paths: str) -> None:
    """Deletes files in as few requests as possible; missing ones are ignored."""
    for path in filter(is_local, paths):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
    remote.delete([path for path in paths if not is_local(path)])


def delete_tree(path: str) -> None:
    """Deletes a folder and all below it; a missing one is ignored.

    Locally it disappears in one step, so that no half-deleted folder passes for a complete one.
    """
    if is_local(path):
        doomed = f"{path.rstrip('/')}.deleted"
        shutil.rmtree(doomed, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    else:
        remote.delete([uri for uri, _, _ in remote.list_below(path)])
