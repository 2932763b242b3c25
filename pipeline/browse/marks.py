"""The list of marked images: a text file with a path a line, which always appears whole."""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.path_lists import parse_paths


class Marks:
    """Marked paths, written to their file at each change. Threads and processes may share it.

    What others have written to the file meanwhile is kept: each change is made to what is in it.
    `ingest.leave_out` and `feeding.select.leave_out` take the file, and ingest takes it as a table
    of images.
    """

    def __init__(self, path: str):
        """Goes on with the file, if there is one.

        Raises:
          UserError: if it cannot be read or written.
        """
        self.path = path
        # A link stays one, and the file that it leads to is written.
        self._file = os.path.realpath(path) if path and files.is_local(path) else path
        self._lock = threading.Lock()
        try:
            _check(self._file)
            self._paths = self._read()
        except OSError as error:
            raise UserError(
                f"--marks must be a file that can be read and written, got {path!r}: "
                f"{error.strerror or error}; choose another."
            ) from error

    @property
    def paths(self) -> frozenset[str]:
        """The marked paths; another object after each change."""
        return self._paths

    def set(self, paths: Iterable[str], marked: bool) -> int:
        """Marks paths, or takes their marks away; returns how many paths are marked then.

        Raises:
          ValueError: if a path is of several lines.
          UserError, OSError: if the file cannot be written; then nothing changes.
        """
        changed = frozenset(paths)
        if bad := [each for each in changed if "\n" in each or "\r" in each]:
            raise ValueError(
                f"a marked path must be of one line, got {min(bad)!r}; rename the file."
            )
        with self._lock, _alone(self._file):
            found = self._read()
            wanted = found | changed if marked else found - changed
            if wanted != found:
                lines = "".join(f"{each}\n" for each in sorted(wanted))
                files.write_file(self._file, lines.encode())
            self._paths = wanted
            return len(wanted)

    def _read(self) -> frozenset[str]:
        if not files.is_file(self._file):
            return frozenset()
        content = files.read_file(self._file)
        if b"\0" in content:
            raise OSError(errno.EINVAL, "it is no list of paths, since it is no text")
        return frozenset(parse_paths(content))


def _check(path: str) -> None:
    """Raises OSError or UserError if a list cannot be written there, before anything is marked."""
    if not path:
        raise FileNotFoundError(errno.ENOENT, "it has no name")
    files.check_writable(path)
    if files.is_local(path) and os.path.exists(path):
        if not os.path.isfile(path):
            raise OSError(errno.EINVAL, "it is no regular file")
        if not os.access(path, os.W_OK):  # It would be replaced all the same.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Keeps other processes from changing the list meanwhile, by a lock on its folder.

    The file itself is another one after each change. Stores have no locks, nor have some network
    file systems.
    """
    if not files.is_local(path):
        yield
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
