"""Reads the bytes of one source."""

from components import files
from components.images.prepare import BadImage
from components.ingest.options import IngestOptions
from components.ingest.sources import ImageRef


def try_read(ref: ImageRef, images_dir: str, options: IngestOptions) -> bytes | BadImage:
    """Reads one source's bytes.

    Returns:
      The bytes, or why the source is to be quarantined.

    Raises:
      UserError: if an object store refuses to give it, or does not answer.
    """
    try:
        return _read_source(ref, images_dir, options)
    except BadImage as error:
        return error


def _read_source(ref: ImageRef, images_dir: str, options: IngestOptions) -> bytes:
    limit = options.prepare.max_file_bytes
    if not ref.is_file:
        raise BadImage("not_a_file", "a broken link, a pipe or a device")
    if ref.size_bytes > limit:
        raise BadImage("too_large_file", f"{ref.size_bytes} bytes; prepare.max_file_bytes={limit}")
    try:
        return files.read_file(files.join(images_dir, ref.path))
    except FileNotFoundError as error:
        raise BadImage("vanished", "listed, but gone when it was read") from error
    except OSError as error:
        raise BadImage("unreadable", error.strerror or str(error)) from error
