"""Files anywhere: plain paths by the operating system, URIs (`gs://`, `s3://`, …) by Apache Beam.

Paths are `str`; names that are not UTF-8 travel as `os.fsdecode` gives them.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import BinaryIO


def is_local(path: str) -> bool:
    """Tells whether the path belongs to the operating system."""
    return "://" not in path


def join(folder: str, *names: str) -> str:
    """Joins a folder and names with a slash."""
    return "/".join([folder.rstrip("/"), *names])


def _beam():
    # Imported late: plain paths do not need Beam, which takes seconds to import.
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def open_input(path: str) -> BinaryIO:
    """Opens a file for reading, bytes as they are (no decompression by file ending).

    Raises:
      FileNotFoundError: if there is no such file.
    """
    if is_local(path):
        return open(path, "rb")
    from apache_beam.io.filesystem import BeamIOError, CompressionTypes

    try:
        return _beam().open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except BeamIOError as error:
        raise FileNotFoundError(path) from error


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[BinaryIO]:
    """Opens a file that appears under its name only when the block ends without an error.

    Locally: a temporary file beside it, flushed to the disk, then renamed. Object stores make an
    object visible only when it is closed, so there it is written in place.
    """
    if not is_local(path):
        from apache_beam.io.filesystem import CompressionTypes

        with _beam().create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            yield file
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def exists(path: str) -> bool:
    """Tells whether there is a file or folder at the path."""
    return os.path.exists(path) if is_local(path) else _beam().exists(path)


def delete_tree(path: str) -> None:
    """Deletes a folder and all below it; nothing happens if it is not there."""
    if is_local(path):
        shutil.rmtree(path, ignore_errors=True)
    elif exists(path):
        _beam().delete([path])
