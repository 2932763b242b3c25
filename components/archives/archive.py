"""Archives as a source: the members of tar and zip files, as if they lay in a folder."""

import array
import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.archives.archive_members import ENDINGS, list_members
from image_pipeline.components.archives.byte_ranges import read_gzipped, read_plain, read_zipped
from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.file_names import find_matching
from image_pipeline.components.sources.folder import listing_key
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import Location
from image_pipeline.components.sources.source_kinds import SourceKind, read_location

LISTED_TWICE = "listed_twice"
_NO_CRC = -1


@dataclasses.dataclass(frozen=True)
class Archive:
    """Archives whose members are images.

    Attributes:
      root: the path or URI of one, or a shell pattern of several, whose members are listed as if
        they were unpacked into one folder.
    """

    root: str

    def list(self) -> Iterator[ImageRef]:
        """Lists the members in the order of a folder of them.

        Raises:
          UserError: if there is no archive, or one cannot be read.
        """
        refs = iter(_list_sorted(self.root, tuple(find_files(self.root))))
        last = next(refs, None)
        for ref in refs:
            if last is not None:
                yield _name_twice(last, ref) if ref.path == last.path else last
            last = ref
        yield from () if last is None else (last,)

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """Reads a member; see `Source.read`."""
        return read_location(ref, most_bytes)


def find_files(pattern: str) -> list[tuple[str, int]]:
    """The files of a shell pattern, sorted, with when they were changed (ns since 1970).

    Raises:
      UserError: if there is none, or one that braces name is not there.
    """
    found = find_matching(pattern)
    if not found:
        raise UserError(f"There is no archive {pattern!r}; give one that exists.")
    dated = []
    for path in found:
        try:
            dated.append((path, files.stat_file(path)[1]))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(f"There is no archive {path!r}; give one that exists.") from error
    return dated


# One listing is kept, since whoever checks the images lists them before whoever ingests them.
@functools.lru_cache(maxsize=1)
def _list_sorted(root: str, archives: tuple[tuple[str, int], ...]) -> "_Members":
    members = _Members(root, [path for path, _ in archives])
    for number, (path, modified_ns) in enumerate(archives):
        for ref in list_members(path, modified_ns):
            members.add(ref, number)
    members.sort()
    return members


class _Members:
    """References to members in little memory: some 120 bytes each, most of it the name."""

    def __init__(self, root: str, archives: Sequence[str]):
        self._root, self._archives = root, archives
        self._kinds: list[tuple[str, int]] = []  # how they are read, and when they were changed
        self._keys: list[str] = []
        self._numbers = array.array("q")
        self._bad: dict[int, ImageRef] = {}
        self._order: np.ndarray = np.zeros(0, np.int64)

    def add(self, ref: ImageRef, archive: int) -> None:
        """Holds one more, which is in the archive of that number."""
        if ref.problem is not None or ref.location is None:
            self._bad[len(self._keys)] = ref
        location = ref.location or Location("", "", 0)
        kind = (location.kind, ref.modified_ns)
        if kind not in self._kinds:
            self._kinds.append(kind)
        crc = _NO_CRC if location.crc is None else location.crc
        numbers = (location.start, location.length, crc, ref.size_bytes)
        self._numbers.extend((archive, self._kinds.index(kind), *numbers))
        self._keys.append(listing_key(ref.path, self._root))

    def sort(self) -> None:
        """Brings them into the order of a folder, and members of one name into that of archives."""
        self._order = np.argsort(np.array(self._keys, object), kind="stable")

    def __iter__(self) -> Iterator[ImageRef]:
        return map(self._make, self._order.tolist())

    def _make(self, row: int) -> ImageRef:
        if row in self._bad:
            return self._bad[row]
        archive, kind, start, length, crc, size_bytes = self._numbers[6 * row : 6 * row + 6]
        name, modified_ns = self._kinds[kind]
        known_crc = None if crc == _NO_CRC else crc
        location = Location(self._archives[archive], name, start, length, crc=known_crc)
        return ImageRef(
            self._keys[row].replace("\0", "/"), size_bytes, modified_ns, location=location
        )


def _name_twice(ref: ImageRef, later: ImageRef) -> ImageRef:
    """The last member of a name counts, as where archives are unpacked one after another."""
    first, again = (each.location.file if each.location else "" for each in (ref, later))
    which = "a later member" if first == again else f"one of {again!r}"
    message = f"{which} has the same name, and would replace it if {first!r} were unpacked"
    return dataclasses.replace(ref, problem=LISTED_TWICE, message=message)


ARCHIVE = SourceKind(
    name="an archive",
    endings=ENDINGS,
    recognise=lambda images: images[-1:] != "/",
    open=lambda images, _: Archive(images),
    locations={
        "bytes": read_plain,
        "zip": read_zipped,
        "zip_deflated": read_zipped,
        "gzip": read_gzipped,
    },
    is_dated=True,
)
