"""Whatever else Beam can read (`hdfs://`, …), by its file systems."""

import errno
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

_COPY_BYTES = 2**20


class BeamFiles:
    """The files of one of Beam's file systems."""

    lists_in_order = False

    def __init__(self, system: Any):
        from apache_beam.io.filesystem import CompressionTypes

        self._system = system
        self._plain = {"compression_type": CompressionTypes.UNCOMPRESSED}

    def read(self, uri: str, start: int, end: int | None) -> bytes:
        """A file or a part of it."""
        with self._open(uri) as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)

    def _open(self, uri: str) -> BinaryIO:
        try:
            return self._system.open(uri, **self._plain)
        except Exception:  # Each system has its own for what is missing.
            self._refuse_missing(uri)
            raise

    def _refuse_missing(self, uri: str) -> None:
        if not self._system.exists(uri):
            raise FileNotFoundError(errno.ENOENT, "no such file", uri)

    def stat(self, uri: str) -> tuple[int, float]:
        """A file's size in bytes, and its time of change in seconds, or 0."""
        self._refuse_missing(uri)
        found = self._system.metadata(uri)
        return found.size_in_bytes, found.last_updated_in_seconds or 0

    def list_below(self, folder: str) -> Iterator[tuple[str, int, float]]:
        """All files below a folder; the first soon, all others when they are all known."""
        pattern = f"{folder.rstrip('/')}/**"
        first = self._match(pattern, 1)
        yield from first
        yield from (found for found in self._match(pattern, None) if found not in first)

    def _match(self, pattern: str, limit: int | None) -> list[tuple[str, int, float]]:
        (match,) = self._system.match([pattern], limits=[limit])
        return [
            (found.path, found.size_in_bytes, found.last_updated_in_seconds or 0)
            for found in match.metadata_list
        ]

    def put(self, uri: str, file: BinaryIO) -> None:
        """Writes a file."""
        file.seek(0)
        with self._system.create(uri, **self._plain) as target:
            shutil.copyfileobj(file, target, _COPY_BYTES)

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes files; those that are not there are left out."""
        if found := [uri for uri in uris if self._system.exists(uri)]:
            self._system.delete(found)
