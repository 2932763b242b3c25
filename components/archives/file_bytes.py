"""Bytes of a file that stays open: it costs as much to open one as to read a small image."""

import os

from image_pipeline.components import files
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

_MOST_BYTES = 2**63 - 1  # of a file


class FileBytes:
    """A file's bytes, read by any thread; it closes with its last user.

    So no thread reads another file by its number.
    """

    def __init__(self, path: str):
        """Opens it, unless it is behind a URI."""
        self._path = path
        is_local = files.is_local(path)
        self._file = open(path, "rb", buffering=0) if is_local else None  # noqa: SIM115

    def read(self, start: int, length: int) -> bytes:
        """Reads so many bytes; raises BadImage if there are fewer."""
        data = self.read_some(start, length)
        if len(data) < length:
            raise BadImage(CORRUPT, f"{self._path!r} ends within it")
        return data

    def read_some(self, start: int, length: int) -> bytes:
        """Reads so many bytes, or fewer if the file ends; a damaged list may ask for any."""
        if not 0 <= start <= _MOST_BYTES - length:
            return b""
        if self._file is None:
            return files.read_file(self._path, start, start + length)
        return os.pread(self._file.fileno(), length, start)
