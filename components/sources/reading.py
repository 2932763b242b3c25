"""Reads the bytes of one source, which must be a regular file: reading never blocks."""

from image_pipeline.components import files, progress
from image_pipeline.components.images.kind import HEAD_BYTES
from image_pipeline.components.images.prepare import BadImage
from image_pipeline.components.sources.folder import (
    LISTED_BEFORE,
    NOT_A_FILE,
    OUTSIDE,
    ImageRef,
    is_inside,
)
from image_pipeline.components.sources.skipping import find_other_kind

_MESSAGES = {
    NOT_A_FILE: "a broken link, a pipe, a device, or what cannot be read to an end",
    OUTSIDE: "a link that leaves the images folder; ingest.follow_links=true would follow it",
    LISTED_BEFORE: "a folder whose images are listed by another name",
}


class SkippedFile(Exception):
    """A file that is not an image and never was; `kind` says what it is."""

    def __init__(self, kind: str, message: str):
        """Keeps both, as `BadImage` does."""
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


def try_read(
    ref: ImageRef, images_dir: str, max_file_bytes: int, follow_links: bool
) -> bytes | BadImage | SkippedFile:
    """Reads one source's bytes.

    Args:
      ref: the reference.
      images_dir: the folder that its path starts from.
      max_file_bytes: a larger file is refused.
      follow_links: whether a link may lead out of the folder.

    Returns:
      The bytes, or why the source is to be quarantined or skipped.

    Raises:
      UserError: if an object store refuses it or does not answer.
    """
    try:
        with progress.named(f"reading {ref.path}"):
            data = _read_source(ref, images_dir, max_file_bytes, follow_links)
        _check_kind(ref.path, data[:HEAD_BYTES])
        return data
    except (BadImage, SkippedFile) as error:
        return error


def _check_kind(path: str, head: bytes) -> None:
    """Raises `SkippedFile` if neither its name nor its first bytes are an image's."""
    if other := find_other_kind(path, head):
        raise SkippedFile(*other)


def _read_source(ref: ImageRef, images_dir: str, limit: int, follow_links: bool) -> bytes:
    path = files.join(images_dir, ref.path)
    if ref.problem == LISTED_BEFORE:
        raise SkippedFile(LISTED_BEFORE, _MESSAGES[LISTED_BEFORE])
    if ref.problem is not None:
        raise BadImage(ref.problem, _MESSAGES[ref.problem])
    if files.is_local(path) and not follow_links and not is_inside(path, images_dir):
        raise BadImage(OUTSIDE, _MESSAGES[OUTSIDE])  # The link was changed after the listing.
    try:
        if ref.size_bytes > limit:
            _check_kind(ref.path, _read_up_to(path, HEAD_BYTES))
            message = f"{ref.size_bytes} bytes; prepare.max_file_bytes={limit}"
            raise BadImage("too_large_file", message)
        data = files.read_file(path) if not files.is_local(path) else _read_up_to(path, limit + 1)
        if len(data) > limit:  # It has grown.
            raise BadImage("too_large_file", f"more than prepare.max_file_bytes={limit} bytes")
        return data
    except files.NotRegularError as error:
        raise BadImage(NOT_A_FILE, _MESSAGES[NOT_A_FILE]) from error
    except FileNotFoundError as error:
        raise BadImage("vanished", "listed, but gone when it was read") from error
    except OSError as error:
        raise BadImage("unreadable", error.strerror or str(error)) from error


def _read_up_to(path: str, most_bytes: int) -> bytes:
    if files.is_local(path):
        return files.read_regular_file(path, most_bytes)
    return files.read_file(path, 0, most_bytes)
