"""Images that are a range of bytes in a file: as they are, or packed as zip and gzip do.

Nothing is ever written to disk, so no name in an archive can do harm. Images in a gzip file are
read ahead in the order in which they lie in it, whatever their names' order is: such a file is
unpacked from one of few places on, so that each step back costs up to 4 MiB of unpacking, 50 times
what the image itself does.
"""

import dataclasses
import functools
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence

from image_pipeline.components.archives.archive_members import clean_name
from image_pipeline.components.archives.file_bytes import FileBytes, open_packed
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.rows import Location

# Of a zip file (PKWARE's APPNOTE, 4.3.7): bytes of a member's own header, before its name and the
# extra field.
_LOCAL_HEADER = 30
_SIGNATURE = b"PK\3\4"  # which it begins with
_FLAGS, _IS_UTF_8 = 6, 1 << 11  # Otherwise names are in IBM's code page 437.
_USUAL_NAME = 256  # Bytes: a longer one is read again.
_DEFLATE_HEAD = 2**16  # more than what deflate has before its first byte
_RAW_DEFLATE = -zlib.MAX_WBITS


def read_plain(ref: ImageRef, wanted: int) -> bytes:
    """Reads an image that is stored as it is; see `source_kinds.Reader`."""
    location = _location_of(ref)
    return _check(ref, read_range(ref, location.start, wanted), wanted)


def read_zipped(ref: ImageRef, wanted: int) -> bytes:
    """Reads a member of a zip file; its place starts at the header before it."""
    location = _location_of(ref)
    file = _open(location.file, ref.modified_ns)
    try:
        start, name = find_zipped(file.read_some, location.start)
    except BadImage as error:
        raise BadImage(error.reason, f"in {location.file!r} {error.message}") from error
    if ref.path not in ("", clean_name(name)):  # In place, a record says no name.
        raise BadImage(CORRUPT, f"{location.file!r} lists it so, but its own header says {name!r}")
    is_packed = location.kind == "zip_deflated"
    # A damaged list may say any length; what unpacks to less than half of itself is damage, too.
    length = min(location.length, 2 * wanted + _DEFLATE_HEAD) if is_packed else wanted
    data = file.read_some(start, length)
    return _check(ref, _inflate(data, wanted) if is_packed else data, wanted)


def find_zipped(read: Callable[[int, int], bytes], at: int) -> tuple[int, str]:
    """Where the bytes of a zip file's member begin, and what its own header calls it.

    Args:
      read: reads the file's bytes from one on, so many of them or fewer.
      at: where the file's list says that the member's own header is.

    Raises:
      BadImage: if it is not there.
    """
    header = read(at, _LOCAL_HEADER + _USUAL_NAME)
    if len(header) < _LOCAL_HEADER or not header.startswith(_SIGNATURE):
        raise BadImage(CORRUPT, f"it has no header at byte {at}, where it should begin")
    (flags,) = struct.unpack_from("<H", header, _FLAGS)
    name_bytes, extra_bytes = struct.unpack_from("<HH", header, _LOCAL_HEADER - 4)
    end = _LOCAL_HEADER + name_bytes
    name = (header if end <= len(header) else read(at, end))[_LOCAL_HEADER:end]
    encoding = "utf-8" if flags & _IS_UTF_8 else "cp437"
    return at + end + extra_bytes, name.decode(encoding, "replace")


def read_gzipped(ref: ImageRef, wanted: int) -> bytes:
    """Reads a range of what a gzip file unpacks to."""
    location = _location_of(ref)
    file = open_packed(location.file, "gzip", ref.modified_ns, is_checked=True)
    return _check(ref, file.pread(wanted, location.start), wanted)


def read_range(ref: ImageRef, start: int, length: int) -> bytes:
    """Bytes of the file that holds an image; fewer, if it ends."""
    return _open(_location_of(ref).file, ref.modified_ns).read_some(start, length)


@functools.lru_cache(maxsize=64)
def _open(path: str, modified_ns: int) -> FileBytes:
    """`modified_ns` is for the cache only."""
    return FileBytes(path)


def _location_of(ref: ImageRef) -> Location:
    assert ref.location is not None
    return ref.location


def _inflate(data: bytes, wanted: int) -> bytes:
    """At most so many bytes of what was packed: a bomb fills no memory."""
    try:
        return zlib.decompressobj(_RAW_DEFLATE).decompress(data, wanted) if wanted else b""
    except zlib.error as error:
        raise BadImage(CORRUPT, f"it cannot be unpacked ({error})") from error


def _check(ref: ImageRef, data: bytes, wanted: int) -> bytes:
    location = _location_of(ref)
    if len(data) < wanted:
        raise BadImage(CORRUPT, f"{location.file!r} ends within it")
    if location.crc is not None and wanted == ref.size_bytes and zlib.crc32(data) != location.crc:
        raise BadImage(CORRUPT, f"its checksum in {location.file!r} is another")
    return data


def read_ahead(refs: Sequence[ImageRef], source: Source, max_bytes: int) -> Source:
    """The source, from which these references were read ahead if their order takes long.

    Args:
      refs: a chunk's references, which bound the memory that this takes.
      source: whose they are.
      max_bytes: larger images are left alone.
    """
    each = [*refs, *(ref.mask for ref in refs if ref.mask is not None)]
    packed = [ref for ref in each if ref.location is not None and ref.location.kind == "gzip"]
    if not _goes_back(packed):
        return source
    ahead: dict[Location, bytes | BadImage | OSError] = {}
    for ref in sorted(packed, key=_start_of):
        if ref.problem is None and ref.size_bytes <= max_bytes and ref.location is not None:
            try:
                ahead[ref.location] = source.read(ref, max_bytes)
            except (BadImage, OSError) as error:
                ahead[ref.location] = error
    return _Ahead(source, ahead)


@dataclasses.dataclass(frozen=True)
class _Ahead:
    """A source of which some images were read."""

    source: Source
    ahead: dict[Location, bytes | BadImage | OSError]

    @property
    def root(self) -> str:
        """See `Source`; so do the others."""
        return self.source.root

    def list(self) -> Iterator[ImageRef]:
        """All of them."""
        return self.source.list()

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """What was read, or what went wrong."""
        found = self.ahead.get(ref.location) if ref.location is not None else None
        if found is None:
            return self.source.read(ref, most_bytes)
        if isinstance(found, bytes):
            return found[:most_bytes]
        raise found


def _start_of(ref: ImageRef) -> tuple[str, int]:
    return (ref.location.file, ref.location.start) if ref.location is not None else ("", 0)


def _goes_back(refs: Sequence[ImageRef]) -> bool:
    """Tells whether any file would be read backwards."""
    reached: dict[str, int] = {}
    for file, start in map(_start_of, refs):
        if start < reached.get(file, 0):
            return True
        reached[file] = start
    return False
