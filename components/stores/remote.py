"""Files behind URIs: `gs://`, `s3://`, `az://`, and whatever else Beam can read; see `files`."""

import contextlib
import errno
import fnmatch
import io
import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Protocol, cast

from image_pipeline.components.errors import UserError, store_error
from image_pipeline.components.stores.beam_files import BeamFiles
from image_pipeline.components.stores.google import open_google
from image_pipeline.components.stores.objects import find_address, open_objects
from image_pipeline.components.threads import call_within

# Finding out that there are no credentials takes Google's client more than half a minute.
ANSWER_TIMEOUT_S = 90
# What is held in memory of a file: of a new one before it goes to the disk, of others in all.
_HELD_BYTES = 8 * 2**20
_LOCK = threading.Lock()


class UnknownStoreError(UserError):
    """No store has addresses of this form, as that of a web page."""

    def __init__(self, uri: str, reason: str):
        """Says so, and what Beam says."""
        known = "known are gs://, s3://, az://, and what Apache Beam can read"
        super().__init__(f"{uri}: no store has such addresses ({known}: {reason})")


class Store(Protocol):
    """What is asked of a store; each raises errors of its own, or FileNotFoundError."""

    lists_in_order: bool  # As `list_below` lists: then nobody needs to hold the list to sort it.

    def read(self, uri: str, start: int, end: int | None) -> bytes:
        """A file or a part of it, by one request; the part may reach over the file's end."""

    def stat(self, uri: str) -> tuple[int, float]:
        """A file's size in bytes, and its time of change in seconds, or 0."""

    def list_below(self, folder: str) -> Iterator[tuple[str, int, float]]:
        """All files below a folder: URI, size in bytes, time of change in seconds or 0."""

    def put(self, uri: str, file: BinaryIO) -> None:
        """Writes a whole file, or none."""

    def delete(self, uris: Sequence[str]) -> None:
        """Deletes files; those that are not there are left out."""


def _find_store(uri: str) -> Store:
    """The store of the URI's scheme and bucket; each is made once."""
    address = find_address(uri)
    with _LOCK:
        if address is not None:
            return open_objects(address)
        beam = _beam()
        if uri.startswith("gs://"):
            return open_google(beam._pipeline_options)
        try:
            return BeamFiles(beam.get_filesystem(uri))
        except ValueError as error:
            raise UnknownStoreError(uri, str(error)) from error


def _beam() -> Any:
    # Imported late: plain paths do not need Beam, which takes seconds to import.
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    if FileSystems._pipeline_options is None:  # A pipeline sets its own.
        FileSystems.set_options(PipelineOptions([]))
    return FileSystems


def forget_stores() -> None:
    """The next call makes them again, and so reads the environment again."""
    with _LOCK:
        open_google.cache_clear()
        open_objects.cache_clear()


def check_answers(uri: str) -> None:
    """Makes sure that a store is there and knows the bucket, before work begins that needs both.

    Raises:
      UserError: if it does not, or says nothing within `ANSWER_TIMEOUT_S`.
    """
    _begin_list(uri)


def read_file(uri: str, start: int = 0, end: int | None = None) -> bytes:
    """Reads a file, or its bytes from `start` up to `end`, by one request.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if its store refuses to give it, or does not answer.
    """
    if end is not None and end <= start:
        return b""
    with _explained(uri):
        return _find_store(uri).read(uri, start, end)


def open_input(uri: str) -> BinaryIO:
    """Opens a file for reading: a small one is one request; raises as `read_file`."""
    first = read_file(uri, 0, _HELD_BYTES)
    if len(first) < _HELD_BYTES:
        return io.BytesIO(first)
    size_bytes = stat(uri)[0]

    def read(start: int, length: int) -> bytes:
        return read_file(uri, start, min(start + length, size_bytes))

    return cast(BinaryIO, io.BufferedReader(ReadAt(read, size_bytes), _HELD_BYTES))


class ReadAt(io.RawIOBase):
    """A file that is not there, by what reads at most so many of its bytes, from a place on."""

    def __init__(self, read: Callable[[int, int], bytes], size_bytes: int = 0):
        """Begins at the first byte; its size is for whoever seeks from its end."""
        self._read, self._size_bytes, self._at = read, size_bytes, 0

    def readable(self) -> bool:
        """See `io.RawIOBase`; so do the others."""
        return True

    def seekable(self) -> bool:
        """It can be read from anywhere."""
        return True

    def tell(self) -> int:
        """Where it is read next."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """To a place from the beginning, from here, or from the end."""
        self._at = offset + (0, self._at, self._size_bytes)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        """As many bytes as there are."""
        data = self._read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        """All the rest, by as few calls as may be: Python's own asks for 8 KiB at a time."""
        blocks = []
        while self._at < self._size_bytes:
            blocks.append(self._read(self._at, self._size_bytes - self._at))
            self._at += len(blocks[-1])
            if not blocks[-1]:
                break
        return b"".join(blocks) if self._size_bytes else super().readall()


@contextlib.contextmanager
def create(uri: str) -> Iterator[BinaryIO]:
    """Opens a file that is sent when the block has ended, and only if without an error.

    Raises:
      UserError: if its store does not take it, or the disk that holds it until then.
    """
    with HeldFile(_HELD_BYTES) as file:
        yield cast(BinaryIO, file)
        file.flush()
        with _named_bucket(uri), _explained(uri):
            _find_store(uri).put(uri, cast(BinaryIO, file))


def is_file(uri: str) -> bool:
    """Tells whether there is a file of this name."""
    try:
        return stat(uri)[0] >= 0
    except FileNotFoundError:
        return False


def stat(uri: str) -> tuple[int, float]:
    """A file's size in bytes, and its time of change in seconds, or 0; raises as `read_file`."""
    with _explained(uri):
        return _find_store(uri).stat(uri)


def exists(uri: str) -> bool:
    """Tells whether there is a file of this name, or one in a folder of this name."""
    try:  # Object stores have no folders: one is there if something is in it.
        with _explained(uri):
            return is_file(uri) or any(_find_store(uri).list_below(uri))
    except FileNotFoundError:  # There is no such bucket.
        return False


def list_tree(folder: str) -> Iterator[tuple[str, int, float]]:
    """As `list_below`, in an order that is the same each time: mostly that of the names.

    Of Google's, Amazon's and Azure's stores some pages are held, of others the list.

    Raises:
      UserError: as `list_below`; and if such a store lists in no order.
    """
    found = list_below(folder)
    with _explained(folder):
        is_ordered = _find_store(folder).lists_in_order
    yield from check_order(found) if is_ordered else sorted(found)


def list_below(folder: str) -> Iterator[tuple[str, int, float]]:
    """All files below a folder, by their URIs: URI, size in bytes, time of change in seconds.

    The time is 0 where it is unknown.

    Raises:
      UserError: if there is no such bucket, or its store refuses, or does not answer.
    """
    found = _begin_list(folder)
    with _explained(folder):
        yield from found


def _begin_list(folder: str) -> Iterator[tuple[str, int, float]]:
    """Lists what is below a folder, of which the first page is there."""

    def begin() -> Iterator[tuple[str, int, float]]:
        with _explained(folder):
            listed = iter(_find_store(folder).list_below(folder))
            return itertools.chain(list(itertools.islice(listed, 1)), listed)

    with _answering(folder):  # Only the first page's answer is limited: there may be many.
        return call_within(ANSWER_TIMEOUT_S, begin)


def list_files(folder: str, pattern: str) -> list[str]:
    """The URIs below a folder that match a shell pattern, sorted; raises as `list_tree`."""
    parts = pattern.split("/")
    fixed = list(itertools.takewhile(lambda part: not set("*?[") & set(part), parts[:-1]))
    start = len(folder.rstrip("/")) + 1

    def matches(uri: str) -> bool:
        names = uri[start:].split("/")
        return len(names) == len(parts) and all(map(fnmatch.fnmatchcase, names, parts))

    found = list_below("/".join([folder.rstrip("/"), *fixed]))
    return sorted(uri for uri, _, _ in found if matches(uri))


def delete(uris: Sequence[str]) -> None:
    """Deletes files of one bucket; those that are not there are left out."""
    if uris:
        with _explained(uris[0]):
            _find_store(uris[0]).delete(uris)


@contextlib.contextmanager
def _answering(uri: str) -> Iterator[None]:
    """Where a store that is not there, or knows no such bucket, is found out."""
    try:
        with _named_bucket(uri):
            yield
    except TimeoutError as error:
        raise UserError(
            f"{uri}: its store did not answer within {ANSWER_TIMEOUT_S} s; check the address and "
            "the network."
        ) from error


@contextlib.contextmanager
def _named_bucket(uri: str) -> Iterator[None]:
    """Where only the bucket can be missing."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{uri}: there is no such bucket; check its name, or make it.") from error


@contextlib.contextmanager
def _explained(uri: str) -> Iterator[None]:
    """Makes of a store's many errors a FileNotFoundError or a `UserError`."""
    try:
        yield
    except (UserError, FileNotFoundError):
        raise
    except ModuleNotFoundError as error:
        raise UserError(
            f"{uri}: reading its store needs the package {error.name}, which is not installed: "
            "install the project's own, or copy the files to a local disk."
        ) from error
    except Exception as error:
        if getattr(error, "code", None) == 404:
            raise FileNotFoundError(errno.ENOENT, "no such file or bucket", uri) from error
        raise store_error(uri, f"{type(error).__name__}: {error}") from error


Listed = tuple[str, int, float]  # URI, size in bytes, time of change in seconds


def check_order(listed: Iterator[Listed]) -> Iterator[Listed]:
    """Passes a list on while it is in the order of the names, or of folders and names.

    So nothing needs to be held to sort it. Most stores list by names; Azure's with folders
    (hierarchical namespaces) list a folder's files where the folder's name stands. Either order is
    the same each time, which is what counts.

    Raises:
      UserError: if it is in neither.
    """
    last, by_name, by_folder = "", True, True
    for each in listed:
        uri = each[0]
        by_name = by_name and last < uri
        by_folder = by_folder and last.replace("/", "\0") < uri.replace("/", "\0")
        if not (by_name or by_folder):
            raise UserError(
                f"{uri} is listed behind {last}: its store lists in no order, so images might be "
                "in another one each time. Give a table of their URIs instead."
            )
        last = uri
        yield each


class HeldFile(tempfile.SpooledTemporaryFile):
    """Says of the temporary folder what Python says of a file without a name."""

    def write(self, data: Any) -> int:
        """Writes to memory, or to the disk if it is too much."""
        with _explained_folder():
            return super().write(data)

    def flush(self) -> None:
        """Brings to the disk what is not yet there."""
        with _explained_folder():
            super().flush()


@contextlib.contextmanager
def _explained_folder() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        folder = f"temporary folder {tempfile.tempdir}" if tempfile.tempdir else "temporary folder"
        raise UserError(f"{folder}: {error}; set TMPDIR to one with room.") from error
