"""A folder as a source: every file below it."""

import dataclasses
import functools
import itertools
import operator
import os
import stat
from collections.abc import Iterator

from image_pipeline.components import files
from image_pipeline.components.dataset.other_records import explain_version_name
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.source_kinds import SourceKind, name_endings
from image_pipeline.components.stores.remote import UnknownStoreError

NOT_A_FILE = "not_a_file"  # a broken link, a circular link, a pipe, a device
OUTSIDE = "outside"  # a link that leaves the images folder
OUTSIDE_MESSAGE = "a link that leaves the images folder; ingest.follow_links=true would follow it"
LISTED_BEFORE = "listed_before"  # another name of a folder that is listed under its own
_PACKED = (".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tar.lz4")
_MOST_NAMES = 2**18  # of a folder, among which one in different capitals is looked for


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder of images: its path or URI, and whether links that leave it are followed."""

    root: str
    follow_links: bool = False

    def list(self) -> Iterator[ImageRef]:
        """See `list_images`."""
        return list_images(self.root, self.follow_links)

    def list_unmeasured(self) -> Iterator[ImageRef]:
        """The same without sizes and times, which take most of the time on a local disk."""
        return list_images(self.root, self.follow_links, measure=False)

    def measure(self, ref: ImageRef) -> ImageRef:
        """A local reference with its file's size and time."""
        return _measure(ref.path, ref.problem, os.path.join(self.root, ref.path))

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """See `Source.read`."""
        path = locate(self.root, ref.path)
        # What a row names is not even opened outside; what the folder lists is in it, unless a link
        # was changed since, which shows once it is open.
        if ref.annotations is not None or not files.is_local(path):
            path = find_below(self.root, ref.path, self.follow_links)
        if not files.is_local(path):
            # Whole files in one request: of an empty one, a store gives no range.
            end = most_bytes if most_bytes < ref.size_bytes else None
            try:
                return files.read_file(path, 0, end)
            except UnknownStoreError as error:
                raise BadImage("unreadable", str(error)) from error
        try:
            within = None if self.follow_links else self.root
            return files.read_regular_file(path, most_bytes, within)
        except files.OutsideError as error:
            raise BadImage(OUTSIDE, OUTSIDE_MESSAGE) from error


def locate(root: str, path: str) -> str:
    """Where the file of a reference's path is."""
    is_whole = not files.is_local(path) or os.path.isabs(path)
    return path if is_whole else files.join(root, path)


def find_cased(root: str, path: str) -> str | None:
    """The path of the one file in a folder that differs by capital letters alone; None if none is.

    Args:
      root: a local folder.
      path: relative to it, with slashes.
    """
    spelled: list[str] = []
    for part in path.split("/"):
        folder = os.path.join(root, *spelled)
        if not os.path.lexists(os.path.join(folder, part)):
            try:
                named = _names_by_case(folder, os.stat(folder).st_mtime_ns)
            except (OSError, ValueError):
                return None
            names = named.get(part.casefold(), [])
            if len(names) != 1:
                return None
            part = names[0]
        spelled.append(part)
    return "/".join(spelled)


@functools.lru_cache(maxsize=8)
def _names_by_case(folder: str, modified_ns: int) -> dict[str, list[str]]:
    """The names in a folder by their small letters; of very many, of the first ones."""
    found: dict[str, list[str]] = {}
    with os.scandir(folder) as entries:
        for entry in itertools.islice(entries, _MOST_NAMES):
            found.setdefault(entry.name.casefold(), []).append(entry.name)
    return found


def find_below(root: str, path: str, follow_links: bool) -> str:
    """Where the file of a reference's path is; raises BadImage if that is not in the folder."""
    if not follow_links and leads_out(root, path):
        raise BadImage(OUTSIDE, OUTSIDE_MESSAGE)  # A link was changed after the listing.
    return locate(root, path)


def leads_out(root: str, path: str) -> bool:
    """Tells whether a path leads out of a folder: by itself, by `..`, or by links on its way."""
    located = locate(root, path)
    if files.is_local(root) and files.is_local(located):
        return not is_plain(path, root) and not is_inside(located, root)
    return ".." in path.split("/") or not files.is_below(located, root)


def list_images(
    images_dir: str, follow_links: bool = False, measure: bool = True
) -> Iterator[ImageRef]:
    """Lists every file below a folder, sorted by name within each folder.

    Names that begin with a dot are left out, as a shell would. The folder itself may be a link, and
    links to files in it are followed. A link to a folder in it is one reference with a `problem`,
    since the folder is listed under its own name: so a link changes no image's class, and circular
    links end. A link that is not followed is such a reference, too.

    Args:
      images_dir: the folder of images, or its URI.
      follow_links: whether links that leave the folder are followed, too.
      measure: whether the sizes and times of local files are asked for; 0 otherwise.

    Raises:
      UserError: if the folder is missing, is not a folder, or cannot be listed.
    """
    if not files.is_local(images_dir):
        for path, size_bytes, modified_ns in files.list_remote_tree(images_dir):
            is_folder = path[-1:] in ("", "/")  # What a store's web console creates for one.
            if not is_folder and not any(part.startswith(".") for part in path.split("/")):
                yield ImageRef(path, size_bytes, modified_ns)
        return
    if not os.path.isdir(images_dir):
        raise UserError(
            explain_version_name(images_dir)
            or f"The images folder {images_dir!r} {_explain_no_folder(images_dir)}"
        )
    seen: set[tuple[int, int]] = set()
    # A list of folders, not calls of calls: a folder may be nested deeper than Python's calls.
    levels = [_list_folder(images_dir, "", follow_links, measure, seen)]
    while levels:
        found = next(levels[-1], None)
        if found is None:
            levels.pop()
        elif isinstance(found, str):
            levels.append(_list_folder(images_dir, found, follow_links, measure, seen))
        else:
            yield found


def _explain_no_folder(path: str) -> str:
    if not os.path.exists(path):
        return "does not exist; give one that exists."
    if path.lower().endswith(_PACKED):
        return (
            f"is an archive that can only be read from its beginning; unpack it (tar -xf {path}) "
            f"and ingest the folder that it makes, or pack it as .tar or .tar.gz."
        )
    folder = os.path.dirname(path) or "."
    return (
        "is not a folder but a file; give a folder, such as "
        f"{folder!r} that holds it, an archive ({name_endings(is_table=False)}) or a table "
        f"({name_endings(is_table=True)})."
    )


def _list_folder(
    root: str, prefix: str, follow_links: bool, measure: bool, seen: set[tuple[int, int]]
) -> Iterator[ImageRef | str]:
    """The contents of one folder: references, and subfolders as the prefixes of their paths."""
    folder = os.path.join(root, prefix)
    try:
        status = os.stat(folder)
        entries = sorted(os.scandir(folder), key=operator.attrgetter("name"))
    except OSError as error:
        raise UserError(f"Cannot list the folder {folder!r}: {error.strerror}.") from error
    if (status.st_dev, status.st_ino) in seen:
        yield ImageRef(prefix.rstrip("/"), 0, 0, LISTED_BEFORE)
        return
    seen.add((status.st_dev, status.st_ino))
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = prefix + entry.name
        try:
            is_folder, is_file = entry.is_dir(), entry.is_file()
        except OSError:  # a link that leads to itself
            is_folder = is_file = False
        if entry.is_symlink() and not follow_links and not is_inside(entry.path, root):
            yield ImageRef(path, 0, 0, OUTSIDE)
        elif entry.is_symlink() and is_folder and _is_listed(entry.path, root):
            yield ImageRef(path, 0, 0, LISTED_BEFORE)
        elif is_folder:
            yield f"{path}/"
        else:
            problem = None if is_file else NOT_A_FILE
            yield _measure(path, problem, entry) if measure else ImageRef(path, 0, 0, problem)


def is_inside(path: str, folder: str) -> bool:
    """Tells whether a path leads into a folder once all links in it are resolved."""
    return files.is_below(os.path.realpath(path), os.path.realpath(folder))


def is_plain(path: str, root: str) -> bool:
    """Tells whether a relative path has no link and no way up, for a tenth of `is_inside`'s time.

    That one looks at every folder from the file system's root on, twice.
    """
    names = path.split("/")
    if os.path.isabs(path) or ".." in names:
        return False
    parts = ("/".join(names[: count + 1]) for count in range(len(names)))
    return not any(os.path.islink(f"{root}/{part}") for part in parts)


def _is_listed(path: str, root: str) -> bool:
    """Tells whether a link leads to a folder that is listed under its own name anyway."""
    inside, target = os.path.realpath(root), os.path.realpath(path)
    if not target.startswith(inside.rstrip("/") + "/"):
        return target == inside
    return not any(part.startswith(".") for part in os.path.relpath(target, inside).split("/"))


def _measure(path: str, problem: str | None, file: os.DirEntry | str) -> ImageRef:
    try:
        status = file.stat() if isinstance(file, os.DirEntry) else os.stat(file)
    except OSError:  # a link to nowhere, or to itself
        return ImageRef(path, 0, 0, NOT_A_FILE)
    # A folder's times say nothing of its files.
    stamp = (status.st_ino, status.st_ctime_ns) if stat.S_ISREG(status.st_mode) else None
    return ImageRef(path, status.st_size, status.st_mtime_ns, problem, stamp=stamp)


def listing_key(path: str, images_dir: str) -> str:
    """Sorting paths by this key gives the order of `list_images`."""
    # Locally a folder's contents come where its name does; no character sorts before "\0".
    return path.replace("/", "\0") if files.is_local(images_dir) else path


FOLDER = SourceKind(
    name="a folder",
    recognise=lambda images: True,
    open=lambda images, options: Folder(images, options.follow_links),
    has_parts=False,
    is_dated=True,
)
