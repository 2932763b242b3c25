"""Files behind URIs (`gs://`, `s3://`, …), by Apache Beam's file systems; see `files`.

Google's store is asked as few questions as possible (see `google_store`); others are used as Beam
uses them.
"""

import contextlib
import errno
import functools
import itertools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

from image_pipeline.components.errors import UserError, store_error
from image_pipeline.components.stores import google as google_store
from image_pipeline.components.threads import call_within

# Finding out that there are no credentials takes Google's client more than half a minute.
ANSWER_TIMEOUT_S = 90
_COPY_BYTES = 2**20


def check_answers(uri: str) -> None:
    """Makes sure that a store is there and knows the bucket, before work begins that needs both.

    Raises:
      UserError: if it does not, or says nothing within `ANSWER_TIMEOUT_S`.
    """
    with _answering(uri):
        call_within(ANSWER_TIMEOUT_S, lambda: list_matches(f"{uri.rstrip('/')}/**", limit=1))


def open_input(uri: str) -> BinaryIO:
    """Opens a file for reading, bytes as they are; raises as `read_file`."""
    from apache_beam.io.filesystem import CompressionTypes

    with _explained(uri):
        system = _file_system(uri)
        try:
            return system.open(uri, compression_type=CompressionTypes.UNCOMPRESSED)
        except Exception as error:  # Each store has its own for what is missing.
            if _is_google(uri) or system.exists(uri):
                raise
            raise FileNotFoundError(errno.ENOENT, "no such file", uri) from error


def read_file(uri: str, start: int = 0, end: int | None = None) -> bytes:
    """Reads a file, or its bytes from `start` up to `end`; of Google's store by one request.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if its store refuses to give it, or does not answer.
    """
    with _explained(uri):
        if _is_google(uri):
            return google_store.read_file(_file_system(uri)._gcsIO(), uri, start, end)
        with open_input(uri) as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)


@contextlib.contextmanager
def create(uri: str) -> Iterator[BinaryIO]:
    """Opens a file that is visible once the block has ended, and only if without an error.

    Raises:
      UserError: if its store does not take it.
    """
    if not _is_google(uri):
        with tempfile.TemporaryFile() as content:  # Beam would write a part, whatever the error.
            yield content
            _send(content, uri)
        return
    with _explained(uri):
        explained = functools.partial(_explained_write, uri)
        file = google_store.Writer(_file_system(uri)._gcsIO(), uri, explained)
    try:
        yield cast(BinaryIO, file)
    except BaseException as error:
        file.__exit__(type(error), error, error.__traceback__)
        raise
    with _explained_write(uri):
        file.close()


def _send(content: BinaryIO, uri: str) -> None:
    """Writes a file to a store that is not Google's."""
    from apache_beam.io.filesystem import CompressionTypes

    with _explained_write(uri):
        system = _file_system(uri)
        if uri.startswith("s3://") and not content.tell():
            return _put_empty(system, uri)
        content.seek(0)
        with system.create(uri, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            shutil.copyfileobj(content, file, _COPY_BYTES)


def _put_empty(system: Any, uri: str) -> None:
    """Beam writes to S3 part by part, of which there must be one."""
    from apache_beam.io.aws import s3io

    bucket, key = s3io.parse_s3_path(uri)
    s3io.S3IO(options=system._options).client.client.put_object(Bucket=bucket, Key=key, Body=b"")


def is_file(uri: str) -> bool:
    """Tells whether there is a file of this name."""
    with _explained(uri):
        return _file_system(uri).exists(uri)


def exists(uri: str) -> bool:
    """Tells whether there is a file of this name, or one in a folder of this name."""
    try:  # Object stores have no folders: one is there if something is in it.
        return is_file(uri) or bool(list_matches(f"{uri.rstrip('/')}/**", limit=1))
    except FileNotFoundError:  # There is no such bucket.
        return False


def list_matches(pattern: str, limit: int | None = None) -> list:
    """What Beam says of the files that match: `path`, `size_in_bytes`, `last_updated_in_seconds`.

    Raises:
      FileNotFoundError: if there is no such bucket.
      UserError: if the store refuses, or does not answer.
    """
    with _explained(pattern):
        (match,) = _file_system(pattern).match([pattern], limits=[limit])
        return match.metadata_list


def list_tree(folder: str) -> Iterator[tuple[str, int, float]]:
    """All files below a folder, by their URIs: URI, size in bytes, time of change in seconds.

    The time is 0 where it is unknown. Of Google's store some pages are held, of others the list.

    Raises:
      UserError: if there is no such bucket, or its store refuses, or does not answer.
    """
    if not _is_google(folder):
        check_answers(folder)
        found = list_matches(f"{folder.rstrip('/')}/**")
        yield from sorted((f.path, f.size_in_bytes, f.last_updated_in_seconds or 0) for f in found)
        return
    listed = google_store.list_tree(_file_system(folder)._gcsIO(), folder)

    def take_first() -> list:
        with _explained(folder):
            return list(itertools.islice(listed, 1))

    with _answering(folder):  # Only the first page's answer is limited: there may be many.
        first = call_within(ANSWER_TIMEOUT_S, take_first)
    yield from first
    with _explained(folder):
        yield from listed


def delete(uris: Sequence[str]) -> None:
    """Deletes files; those that are not there are left out."""
    if not uris:
        return
    with _explained(uris[0]):
        system = _file_system(uris[0])
        if _is_google(uris[0]):
            google_store.delete(system._gcsIO(), uris)
        elif found := [uri for uri in uris if system.exists(uri)]:
            system.delete(found)


def _is_google(uri: str) -> bool:
    return uri.startswith("gs://")


def _file_system(uri: str):
    """Beam's file system of the URI's scheme."""
    system = _beam().get_filesystem(uri)
    return google_store.keep_client(system) if _is_google(uri) else system


def _beam():
    # Imported late: plain paths do not need Beam, which takes seconds to import.
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    if FileSystems._pipeline_options is None:  # A pipeline sets its own; S3's needs some before.
        FileSystems.set_options(PipelineOptions([]))
    return FileSystems


@contextlib.contextmanager
def _explained_write(uri: str) -> Iterator[None]:
    with _named_bucket(uri), _explained(uri):
        yield


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
    except Exception as error:
        cause = _innermost(error)
        if getattr(cause, "code", None) == 404:
            raise FileNotFoundError(errno.ENOENT, "no such file or bucket", uri) from error
        raise store_error(uri, f"{type(cause).__name__}: {cause}") from error


def _innermost(error: BaseException) -> BaseException:
    """The store's own error inside what Beam made of it."""
    seen: list[BaseException] = []
    while (details := getattr(error, "exception_details", None)) and error not in seen:
        seen.append(error)
        error = next(iter(details.values()))
    return error
