"""The images that a person names: files, folders, patterns, archives, or any source of ingest's."""

import dataclasses
import os
from collections.abc import Iterator, Sequence

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import (
    DECODER_ERRORS,
    TOO_MANY_PIXELS,
    UNSUPPORTED,
    BadImage,
)
from image_pipeline.components.images.header import open_image, read_size
from image_pipeline.components.images.jpeg import MANY_SCANS, has_many_scans
from image_pipeline.components.meaning.open_source import open_complete
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.file_names import WILD, find_matching
from image_pipeline.components.sources.folder import FOLDER, Folder, locate
from image_pipeline.components.sources.reading import MISSING_FILE, SkippedFile, try_read
from image_pipeline.components.sources.references import ImageRef, Source, fingerprint_refs
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.threads import REMOTE_THREADS, map_in_order, usable_cores


@dataclasses.dataclass(frozen=True, slots=True)
class NamedImage:
    """An image that was read, or why it was not.

    Attributes:
      name: its path as a person would write it.
      data: the file's bytes; or what is wrong with it; or what it is, if it is not an image and was
        found in a folder.
      pixels: how many its header declares; 0 if that is not known.
    """

    name: str
    data: bytes | BadImage | SkippedFile
    pixels: int = 0


_Listed = tuple[str, ImageRef, Source]


def read_images(named: Sequence[str], options: IngestOptions) -> Iterator[NamedImage]:
    """Reads images in the order in which they are named, a few of them ahead.

    Args:
      named: as `--images` of ingest; or a file; or a pattern of files.
      options: how ingest reads them: `prepare.max_pixels` and `max_file_bytes`, a table's columns,
        and the like.

    Raises:
      UserError: if a folder, an archive or a table is missing or cannot be listed, a pattern
        matches nothing, or a store does not answer.
    """
    threads = usable_cores() if all(map(files.is_local, named)) else REMOTE_THREADS // 4

    listed = (found for each in named for found in _list_named(each, options))
    yield from map_in_order(lambda found: _read(*found, options), listed, threads, ahead=2)


def fingerprint_images(named: str, options: IngestOptions) -> str:
    """A hash of what is listed, which changes if an image is added, removed or touched.

    Raises:
      UserError: as `read_images` does.
    """
    return fingerprint_refs(ref for _, ref, _ in _list_named(named, options))


def check_listed(named: str, options: IngestOptions) -> None:
    """Lists images as far as the first one; raises as `read_images`, and if there is none."""
    first = next(_list_named(named, options), None)
    if first is None or first[1].problem == MISSING_FILE:
        raise no_files(named)


def no_files(*named: str) -> UserError:
    """The error for what is there, but holds nothing."""
    return UserError(f"There are no files in {', '.join(map(repr, named))}; name others.")


def _list_named(named: str, options: IngestOptions) -> Iterator[_Listed]:
    kind = kind_of(named)
    if kind is FOLDER and not (
        os.path.isdir(named)
        if files.is_local(named)
        else not WILD.search(named) and not files.is_file(named)
    ):
        matching = find_matching(named)
        if not matching:
            raise UserError(f"No file matches {named!r}; correct the pattern.")
        for path in matching:
            yield path, _refer(path), Folder(os.path.dirname(path), follow_links=True)
        return
    if not kind.lists_images:
        raise UserError(
            f"{named!r} is a generator, whose images are only known once it has run; ingest it, "
            "and name the data set that it makes."
        )
    source, _ = open_complete(named, options)
    ref = None
    for ref in source.list():
        yield locate(source.root, ref.path), ref, source
    if ref is None and not files.is_local(named):  # A store has no folders without files.
        yield named, _refer(named), source


def _refer(path: str) -> ImageRef:
    """A file that is named itself; whether it is there shows when it is read."""
    name = path if not files.is_local(path) else os.path.abspath(path)
    try:
        return ImageRef(name, *files.stat_file(path))
    except FileNotFoundError:
        return ImageRef(name, 0, 0, MISSING_FILE, "there is no such file")
    except OSError as error:
        return ImageRef(name, 0, 0, "unreadable", error.strerror or str(error))


def _read(name: str, ref: ImageRef, source: Source, options: IngestOptions) -> NamedImage:
    prepare = options.prepare
    # Whether sounds are served is the model's to say.
    data = try_read(ref, source, prepare.max_file_bytes, with_sounds=True)
    if isinstance(data, SkippedFile) and isinstance(source, Folder) and os.path.isabs(ref.path):
        data = BadImage(data.kind, data.message)  # Who names a file means it.
    if not isinstance(data, bytes):
        return NamedImage(name, data)
    if has_many_scans(data):
        return NamedImage(name, BadImage(UNSUPPORTED, MANY_SCANS))
    try:
        with open_image(data) as image:
            height, width = read_size(image)
    except (BadImage, *DECODER_ERRORS):
        return NamedImage(name, data)  # The model says what is wrong with it.
    pixels = height * width
    if pixels > prepare.max_pixels:
        message = f"{pixels} pixels; ingest.prepare.max_pixels={prepare.max_pixels}"
        return NamedImage(name, BadImage(TOO_MANY_PIXELS, message))
    return NamedImage(name, data, pixels)
