"""The list of marked images: a text file with a path a line, which always appears whole."""

import threading
from collections.abc import Iterable

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.path_lists import parse_paths


class Marks:
    """Marked paths, written to their file at each change. Threads may share it.

    `ingest.leave_out` and `feeding.select.leave_out` take the file, and ingest takes it as a table
    of images.
    """

    def __init__(self, path: str):
        """Goes on with the file, if there is one.

        Raises:
          UserError: if it cannot be read or written.
        """
        self.path = path
        self._lock = threading.Lock()
        self._paths: frozenset[str] = frozenset()
        try:
            files.check_writable(path)
            if files.is_file(path):
                self._paths = frozenset(parse_paths(files.read_file(path)))
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
          OSError: if the file cannot be written; then nothing changes.
        """
        changed = frozenset(paths)
        if bad := [each for each in changed if "\n" in each or "\r" in each]:
            raise ValueError(
                f"a marked path must be of one line, got {min(bad)!r}; rename the file."
            )
        with self._lock:
            wanted = self._paths | changed if marked else self._paths - changed
            if wanted != self._paths:
                lines = "".join(f"{each}\n" for each in sorted(wanted))
                files.write_file(self.path, lines.encode())
                self._paths = wanted
            return len(wanted)
