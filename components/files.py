"""Files anywhere: plain paths by the operating system, URIs (`gs://`, `s3://`, …) by Apache Beam.

Paths are `str`; names that are not UTF-8 travel as `os.fsdecode` gives them.
"""

import contextlib
import errno
import glob
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from components.errors import UserError

_NOT_WRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


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
    from apache_beam.io.filesystem import CompressionTypes

    try:
        return _beam().open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except Exception as error:  # Each store has its own for what is missing.
        if _beam().exists(path):
            raise
        raise FileNotFoundError(path) from error


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[BinaryIO]:
    """Opens a file that appears under its name only when the block ends without an error.

    Locally: a temporary file beside it, flushed to the disk, then renamed. Object stores make an
    object visible only when it is closed, so there it is written in place.

    Raises:
      UserError: if the disk is full, or the place must not be written to.
    """
    if not is_local(path):
        from apache_beam.io.filesystem import CompressionTypes

        with _beam().create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            yield file
        return
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError) and error.errno in _NOT_WRITABLE:
            reason = os.strerror(error.errno)
            raise UserError(
                f"Cannot write {path}: {reason}; free or allow it and run again, "
                "what is finished is kept."
            ) from error
        raise


def exists(path: str) -> bool:
    """Tells whether there is a file or folder at the path."""
    if is_local(path):
        return os.path.exists(path)
    # Object stores have no folders: one is there if something is in it.
    return _beam().exists(path) or _has_files(path)


def _has_files(folder: str) -> bool:
    return bool(_list_tree(folder, limit=1))


def _list_tree(folder: str, limit: int | None = None) -> list[str]:
    """The paths of what lies in a remote folder, at any depth."""
    (match,) = _beam().match([join(folder, "**")], limits=[limit])
    return [each.path for each in match.metadata_list]


def list_files(folder: str, pattern: str) -> list[str]:
    """The paths below a folder that match a shell pattern, sorted."""
    if is_local(folder):
        return sorted(glob.glob(join(glob.escape(folder), pattern)))
    (match,) = _beam().match([join(folder, pattern)])
    return sorted(metadata.path for metadata in match.metadata_list)


def list_remote_tree(folder: str) -> Iterator[tuple[str, int, int]]:
    """All files below a URI, sorted: path relative to it, size in bytes, time of change in ns."""
    (match,) = _beam().match([join(folder, "**")])
    for found in sorted(match.metadata_list, key=lambda metadata: metadata.path):
        modified_ns = int((found.last_updated_in_seconds or 0) * 1e9)
        yield found.path[len(folder.rstrip("/")) + 1 :], found.size_in_bytes, modified_ns


def delete(path: str) -> None:
    """Deletes a file; nothing happens if it is not there."""
    if is_local(path):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
    elif _beam().exists(path):
        _beam().delete([path])


def delete_tree(path: str) -> None:
    """Deletes a folder and all below it; nothing happens if it is not there.

    Locally it disappears in one step, so that a half-deleted folder never passes for a whole one.
    """
    if is_local(path):
        doomed = f"{path.rstrip('/')}.deleted"
        shutil.rmtree(doomed, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    elif paths := _list_tree(path):
        _beam().delete(paths)
