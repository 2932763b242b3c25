"""Reads the bytes of one source, which must be a regular file: reading never blocks."""

from image_pipeline.components import files, progress
from image_pipeline.components.errors import LACKING
from image_pipeline.components.images.kind import HEAD_BYTES
from image_pipeline.components.images.prepare import BadImage
from image_pipeline.components.sources.folder import (
    LISTED_BEFORE,
    NOT_A_FILE,
    OUTSIDE,
    OUTSIDE_MESSAGE,
)
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.skipping import find_other_kind

_MESSAGES = {
    NOT_A_FILE: "a broken link, a pipe, a device, or what cannot be read to an end",
    OUTSIDE: OUTSIDE_MESSAGE,
    LISTED_BEFORE: "a folder whose images are listed by another name",
}


MISSING_FILE = "missing_file"  # a table names it, but it is not there


class SkippedFile(Exception):
    """A file that is not an image and never was; `kind` says what it is."""

    def __init__(self, kind: str, message: str):
        """Keeps both, as `BadImage` does."""
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


def try_read_pair(
    ref: ImageRef, source: Source, max_file_bytes: int, with_sounds: bool = False
) -> tuple[bytes | BadImage | SkippedFile, bytes | BadImage | SkippedFile | None]:
    """Reads an image's bytes as `try_read` does, and its mask's; None where it has none."""
    image = try_read(ref, source, max_file_bytes, with_sounds)
    if ref.mask is None or not isinstance(image, bytes):
        return image, None
    return image, try_read(ref.mask, source, max_file_bytes)


def try_read(
    ref: ImageRef, source: Source, max_file_bytes: int, with_sounds: bool = False
) -> bytes | BadImage | SkippedFile:
    """Reads one image's bytes.

    Args:
      ref: the reference.
      source: whose it is.
      max_file_bytes: a larger file is refused.
      with_sounds: whether sounds are images, too.

    Returns:
      The bytes, or why the source is to be quarantined or skipped.

    Raises:
      UserError: if an object store refuses it or does not answer.
    """
    try:
        with progress.named(f"reading {ref.path}"):
            data = _read_source(ref, source, max_file_bytes, with_sounds)
        _check_kind(ref, data[:HEAD_BYTES], with_sounds)
        return data
    except (BadImage, SkippedFile) as error:
        return error


def _check_kind(ref: ImageRef, head: bytes, with_sounds: bool) -> None:
    """Raises `SkippedFile` if the file is no image, by its name and by how it begins.

    What a table calls an image is never skipped.
    """
    if ref.said is None and (other := find_other_kind(ref.path, head, with_sounds)):
        raise SkippedFile(*other)


def _read_source(ref: ImageRef, source: Source, limit: int, with_sounds: bool) -> bytes:
    if ref.problem == LISTED_BEFORE:
        raise SkippedFile(LISTED_BEFORE, _MESSAGES[LISTED_BEFORE])
    if ref.problem is not None:
        raise BadImage(ref.problem, ref.message or _MESSAGES[ref.problem])
    try:
        if ref.size_bytes > limit:
            _check_kind(ref, source.read(ref, HEAD_BYTES), with_sounds)
            message = f"{ref.size_bytes} bytes; prepare.max_file_bytes={limit}"
            raise BadImage("too_large_file", message)
        data = source.read(ref, limit + 1)
        if len(data) > limit:  # It has grown.
            raise BadImage("too_large_file", f"more than prepare.max_file_bytes={limit} bytes")
        return data
    except files.NotRegularError as error:
        raise BadImage(NOT_A_FILE, _MESSAGES[NOT_A_FILE]) from error
    except FileNotFoundError as error:
        if ref.said is not None:
            raise BadImage(MISSING_FILE, f"{ref.said.row}: there is no such file") from error
        raise BadImage("vanished", "listed, but gone when it was read") from error
    except OSError as error:
        if error.errno in LACKING:
            raise
        raise BadImage("unreadable", error.strerror or str(error)) from error
