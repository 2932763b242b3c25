"""Where images come from: small references to files, never their bytes."""

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Iterator

from components import files
from components.errors import UserError
from components.ingest.options import IngestOptions


@dataclasses.dataclass(frozen=True, slots=True)
class ImageRef:
    """One file to ingest.

    Attributes:
      path: relative to the images folder, with slashes.
      size_bytes: as listed; with `modified_ns` it tells whether a file changed between two runs.
      modified_ns: time of the last change, in nanoseconds since 1970 (0 where unknown).
      is_file: False for what is listed but cannot be read as a file: a broken link, a pipe.
    """

    path: str
    size_bytes: int
    modified_ns: int
    is_file: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive references: the unit of work of the prepare stage.

    Attributes:
      number: 0, 1, 2, …
      is_last: so that a lost chunk is noticed, the last one says so.
      refs: the references.
    """

    number: int
    is_last: bool
    refs: tuple[ImageRef, ...]


def list_images(images_dir: str) -> Iterator[ImageRef]:
    """Lists every file below a folder, sorted by name within each folder.

    Names that begin with a dot are left out, as a shell would. Linked folders are followed, each
    only once.

    Raises:
      UserError: if the folder is missing, is not a folder, or cannot be listed.
    """
    if not files.is_local(images_dir):
        yield from _list_remote(images_dir)
        return
    if not os.path.isdir(images_dir):
        what = "is not a folder" if os.path.exists(images_dir) else "does not exist"
        raise UserError(f"The images folder {images_dir!r} {what}; check --images.")
    yield from _list_folder(images_dir, "", set())


def _list_folder(root: str, prefix: str, seen: set[tuple[int, int]]) -> Iterator[ImageRef]:
    folder = os.path.join(root, prefix)
    try:
        status = os.stat(folder)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"Cannot list the folder {folder!r}: {error.strerror}.") from error
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _list_folder(root, f"{prefix}{entry.name}/", seen)
        else:
            yield _reference(entry, prefix + entry.name)


def _reference(entry: os.DirEntry, path: str) -> ImageRef:
    try:
        status = entry.stat()
        return ImageRef(path, status.st_size, status.st_mtime_ns, entry.is_file())
    except OSError:  # a link to nowhere
        return ImageRef(path, 0, 0, is_file=False)


def _list_remote(images_dir: str) -> Iterator[ImageRef]:
    for path, size_bytes, modified_ns in files.list_remote_tree(images_dir):
        is_folder = not path or path.endswith("/")  # What a store's browser leaves for a folder.
        if not is_folder and not any(part.startswith(".") for part in path.split("/")):
            yield ImageRef(path, size_bytes, modified_ns)


def listing_key(path: str, images_dir: str) -> str:
    """Sorting paths by this key gives the order of `list_images`."""
    # Locally a folder's content stands where its name does; no name has a character before "\0".
    return path.replace("/", "\0") if files.is_local(images_dir) else path


def make_chunks(
    refs: Iterable[ImageRef], max_refs: int = 4096, max_bytes: int = 256 * 2**20
) -> Iterator[Chunk]:
    """Groups references into chunks, each a fraction of a minute's work.

    Args:
      refs: the references, in order.
      max_refs: most references in a chunk.
      max_bytes: a chunk that reaches this many bytes of sources is closed.

    Yields:
      Chunks numbered from 0; the last one is marked, and is empty if there is no reference.
    """
    held: list[ImageRef] = []
    number = size_bytes = 0
    for ref in refs:
        if held and (len(held) >= max_refs or size_bytes >= max_bytes):
            yield Chunk(number, False, tuple(held))
            held, size_bytes, number = [], 0, number + 1
        held.append(ref)
        size_bytes += ref.size_bytes
    yield Chunk(number, True, tuple(held))


def fingerprint_refs(refs: Iterable[ImageRef]) -> str:
    """A hash of names, sizes and times of change: equal if and only if no file was touched.

    Returns:
      32 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for ref in refs:
        line = f"{ref.path}\0{ref.size_bytes}\0{ref.modified_ns}\0{ref.is_file}\n"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def match_pattern(pattern: str | None, group: str, path: str) -> str | None:
    """The named group of a pattern matched from the start of a path, or None."""
    found = re.match(pattern, path) if pattern else None
    return found[group] if found else None


def label_of(path: str, options: IngestOptions) -> str | None:
    """The class that a path names; "" where the images have no labels, None where none is named."""
    if options.label_pattern is None:
        return ""
    return match_pattern(options.label_pattern, "label", path)


def split_of(path: str, options: IngestOptions) -> str | None:
    """The split that a path names, None where it names none."""
    named = match_pattern(options.split_pattern, "split", path)
    return None if named is None else options.split_names.get(named, named)
