"""The list of marked images: a text file with a path a line, which always appears whole."""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.options import parse_paths


class Marks:
    """Marked paths, written to their file at each change. Threads and processes may share it.

    What others have written to the file meanwhile is kept: each change is made to what is in it.
    `ingest.leave_out` and `feeding.select.leave_out` take the file, and ingest takes it as a table
    of images.

    Attributes:
      paths: the marked paths; another object after each change.
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
            if not path:
                raise FileNotFoundError(errno.ENOENT, "it has no name")
            files.check_writable(self._file)
            if files.is_local(path) and os.path.exists(path):
                if not os.path.isfile(path):
                    raise OSError(errno.EINVAL, "it is not a regular file")
                if not os.access(path, os.W_OK):  # It would be replaced all the same.
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self.paths = self._read()
        except OSError as error:
            raise UserError(
                f"--marks must be a file that can be read and written, got {path!r}: "
                f"{error.strerror or error}; choose another."
            ) from error

    def set(self, path: str, marked: bool) -> int:
        """Marks a path, or takes its mark away; returns how many paths are marked then.

        Raises:
          ValueError: if the path is of several lines.
          UserError, OSError: if the file cannot be written; then nothing changes.
        """
        if "\n" in path or "\r" in path:
            raise ValueError(f"a marked path must be of one line, got {path!r}; rename the file.")
        with self._lock, self._alone():
            found = self._read()
            wanted = found | {path} if marked else found - {path}
            if wanted != found:
                lines = "".join(f"{each}\n" for each in sorted(wanted))
                files.write_file(self._file, lines.encode())
            self.paths = wanted
            return len(wanted)

    def _read(self) -> frozenset[str]:
        content = files.read_file(self._file) if files.is_file(self._file) else b""
        if b"\0" in content:
            raise OSError(errno.EINVAL, "it is not text, so it holds no list of paths")
        return frozenset(parse_paths(content))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other processes from changing the list meanwhile, by a lock on its folder.

        The file itself is another one after each change. Stores have no locks, nor have some
        network file systems.
        """
        if not files.is_local(self._file):
            yield
            return
        os.makedirs(os.path.dirname(self._file), exist_ok=True)
        descriptor = os.open(os.path.dirname(self._file), os.O_RDONLY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
