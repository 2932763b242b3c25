"""The members of one tar or zip file, from its headers: names, sizes and where their bytes are."""

import contextlib
import dataclasses
import io
import posixpath
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Self

from indexed_gzip.indexed_gzip import CrcError

from image_pipeline.components import files
from image_pipeline.components.archives.file_bytes import open_packed
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, UNSUPPORTED
from image_pipeline.components.sources.folder import NOT_A_FILE
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import Location
from image_pipeline.components.stores.remote import ReadAt

_GZIPPED = (".tar.gz", ".tgz")
ENDINGS = (".tar", *_GZIPPED, ".zip")
_BLOCK = tarfile.BLOCKSIZE
# What the libraries raise: the last two where a zip file's list is damaged.
_UNREADABLE = (
    *(tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, zlib.error),
    *(NotImplementedError, UnicodeDecodeError),
)
_MOST_BYTES = 2**50  # of a tar file's member
# Of a member, with those before its own that say more of it, such as a long name.
_MOST_HEADER_BYTES, _MOST_HEADERS = 2**18, 8
_WRONG_SUM = "invalid length -4"  # what Python says of the library's answer to that
_SUM_MESSAGE = "its checksum says that it is damaged, but not where"
_ENCRYPTED = 1  # the bit of a zip member's flags
_ZIP_KINDS = {zipfile.ZIP_STORED: "zip", zipfile.ZIP_DEFLATED: "zip_deflated"}


def list_members(path: str, modified_ns: int) -> Iterator[ImageRef]:
    """Lists an archive's members that are not folders.

    What is damaged is a reference with a problem: a member that the archive has no bytes of, and a
    place where a header should be, which is called by its byte.

    Args:
      path: of the archive, or its URI.
      modified_ns: when it was changed, asked for before: so that a change meanwhile is noticed.

    Raises:
      UserError: if there is no such file, or no member can be read.
    """
    try:
        with _open(path, modified_ns) as file:
            list_ = _list_zip if path.lower().endswith(".zip") else _list_tar
            for ref in list_(file, path):
                yield dataclasses.replace(ref, modified_ns=modified_ns)
    except FileNotFoundError as error:
        raise UserError(f"There is no archive {path!r}; give one that exists.") from error
    except _UNREADABLE as error:
        raise UserError(
            f"The archive {path!r} cannot be read ({error}); make it again, or unpack what can be "
            "unpacked, and ingest that folder."
        ) from error


@contextlib.contextmanager
def _open(path: str, modified_ns: int) -> Iterator[BinaryIO]:
    if path.lower().endswith(_GZIPPED):
        packed: Any = ReadAt(_read_packed(path, modified_ns))
        yield io.BufferedReader(packed, 2**16)
        return
    with files.open_input(path) as file:
        yield file


def _read_packed(path: str, modified_ns: int) -> Callable[[int, int], bytes]:
    """Reads what a gzip file unpacks to; the file itself is shared with whoever reads members."""
    file = open_packed(path, "gzip", modified_ns, is_checked=True)

    def read(start: int, most_bytes: int) -> bytes:
        try:
            return file.pread(most_bytes, start)
        except OSError as error:
            if error.errno is not None:  # Of the disk; by their class, the library's own are, too.
                raise
            is_sum = isinstance(error, CrcError) or _WRONG_SUM in str(error)
            raise tarfile.ReadError(_SUM_MESSAGE if is_sum else str(error)) from error

    return read


def _list_tar(file: BinaryIO, path: str) -> Iterator[ImageRef]:
    links: dict[str, str] = {}
    with _open_tar(file) as archive:
        for member in _iterate(archive, file, path):
            if isinstance(member, ImageRef):
                yield member
            elif member.issym() or member.islnk():
                links[clean_name(member.name)] = _target_of(member)
            elif not member.isdir():
                links.pop(clean_name(member.name), None)  # It would be replaced.
                yield _refer(member, path)
    yield from _follow(links, file, path) if links else ()


class _Headers:
    """A tar file as `tarfile` reads headers from it: so many bytes for a member, and no more."""

    def __init__(self, file: BinaryIO):
        self._file, self.seek, self.tell = file, file.seek, file.tell
        self.left = _MOST_HEADER_BYTES
        self.depth = 0

    def read(self, size: int) -> bytes:
        """Reads some bytes, if they are not too many for names and attributes."""
        if not 0 <= size <= self.left:
            raise tarfile.ReadError(f"a member's headers have more than {_MOST_HEADER_BYTES} bytes")
        self.left -= size
        return self._file.read(size)


class _Header(tarfile.TarInfo):
    """A member's header, of which all that can be wrong is an error of `tarfile`."""

    @classmethod
    def fromtarfile(cls, archive: Any) -> Self:
        """Reads a member's headers."""
        file: _Headers = archive.fileobj
        if not file.depth:  # Python 3.11 comes here for the headers within, too.
            file.left = _MOST_HEADER_BYTES
        start = archive.offset
        try:
            header = super().fromtarfile(archive)
            if archive.offset <= start:  # It would be read again, and again.
                raise ValueError(f"its size is {header.size}")
            return header
        except (ArithmeticError, LookupError, ValueError) as error:
            archive.offset = start  # It may be that of the next member by now.
            raise tarfile.ReadError(f"an invalid header: {error}") from error

    def _proc_member(self, archive: Any) -> tarfile.TarInfo:
        """Reads what follows a header, of names and attributes the next header by a call."""
        file: _Headers = archive.fileobj
        if file.depth >= _MOST_HEADERS:
            raise tarfile.ReadError(f"more than {_MOST_HEADERS} headers of one member")
        file.depth += 1
        try:
            return super()._proc_member(archive)  # type: ignore[misc]
        finally:
            file.depth -= 1


def _open_tar(file: BinaryIO) -> tarfile.TarFile:
    """Opens it where its first good header is, which `tarfile` reads at once."""
    at = 0
    while True:
        file.seek(at)
        try:
            headers: Any = _Headers(file)
            return tarfile.open(fileobj=headers, mode="r:", tarinfo=_Header, ignore_zeros=True)
        except tarfile.TarError:
            at = max(at + _BLOCK, file.tell() // _BLOCK * _BLOCK)
            file.seek(at)
            if not file.read(1):
                raise


def _iterate(
    archive: tarfile.TarFile, file: BinaryIO, path: str
) -> Iterator[tarfile.TarInfo | ImageRef]:
    """The members that are not hidden, and references to the parts of the file that are none.

    A damaged header is skipped, up to the next good one; `tarfile` alone would end there silently.
    """
    expected = 0
    while True:
        try:
            member = archive.next()
        except tarfile.TarError as error:
            archive.offset += _BLOCK  # type: ignore[attr-defined]
            file.seek(archive.offset)
            if file.read(1):
                continue  # What followed the block, as a header follows a long name, is none.
            if not expected:
                raise
            yield _damage(path, expected, f"{path!r} cannot be read on ({error})")
            return
        if member is not None and not 0 <= member.size <= _MOST_BYTES:
            archive.offset = member.offset + _BLOCK  # type: ignore[attr-defined]
            continue  # A size that cannot be: nothing could be read behind it.
        end = None if member is None else member.offset
        if problem := _check_gap(file, expected, end):
            if not expected and member is None:
                raise tarfile.ReadError("it has no header of a tar file")
            yield _damage(path, expected, f"{path!r} {problem}")
        if member is None:
            return
        archive.members.clear()  # type: ignore[attr-defined]  # It would hold all of them.
        expected = archive.offset
        if not _is_hidden(member.name):
            yield member


def _check_gap(file: BinaryIO, start: int, end: int | None) -> str:
    """What is wrong with what lies between two members, or after the last: it should be zeros."""
    at, found = file.tell(), start
    file.seek(start)
    try:
        while found != end:
            block = file.read(_BLOCK if end is None else min(_BLOCK, end - found))
            if block.strip(b"\0"):
                return "has no header there, where a member should begin"
            if not block:
                return "" if found > start else "ends without the mark that ends an archive"
            found += len(block)
        return ""
    finally:
        file.seek(at)


def _damage(path: str, at: int, message: str) -> ImageRef:
    message += "; the rest of its members is unknown: once it is whole, run ingest again"
    return ImageRef(f"{posixpath.basename(path)}#byte-{at}", 0, 0, CORRUPT, message)


def names_damage(path: str) -> bool:
    """Tells whether a reference's path stands for damage of an archive, and for no member."""
    return re.search(r"#byte-\d+$", path) is not None


def _refer(member: tarfile.TarInfo, path: str) -> ImageRef:
    kind = "gzip" if path.lower().endswith(_GZIPPED) else "bytes"
    problem = None if member.isreg() and not member.issparse() else NOT_A_FILE
    location = Location(path, kind, member.offset_data, member.size)
    return ImageRef(clean_name(member.name), member.size, 0, problem, location=location)


def _target_of(member: tarfile.TarInfo) -> str:
    """The member that a link leads to; a hard link's target is a name in the archive."""
    if member.islnk():
        return clean_name(member.linkname)
    folder = posixpath.dirname(clean_name(member.name))
    return posixpath.normpath(posixpath.join(folder, member.linkname))


def _end_of(name: str, links: dict[str, str]) -> str:
    """Where a link leads that may lead to others, or in a circle."""
    passed: set[str] = set()
    while name in links and name not in passed:
        passed.add(name)
        name = links[name]
    return name


def _follow(links: dict[str, str], file: BinaryIO, path: str) -> Iterator[ImageRef]:
    """Links to members, as a folder would have them; those that lead elsewhere are not read."""
    ends = {name: _end_of(name, links) for name in links}
    targets = set(ends.values())
    found: dict[str, ImageRef] = {}
    with _open_tar(file) as archive:
        for member in _iterate(archive, file, path):
            if isinstance(member, tarfile.TarInfo) and clean_name(member.name) in targets:
                found.setdefault(clean_name(member.name), _refer(member, path))
    for name, target in ends.items():
        lost = ImageRef(name, 0, 0, NOT_A_FILE)
        yield dataclasses.replace(found.get(target, lost), path=name)


def _list_zip(file: BinaryIO, path: str) -> Iterator[ImageRef]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            # `is_dir` fails for a name that is empty.
            if not member.filename.endswith("/") and not _is_hidden(member.filename):
                yield _refer_zipped(member, path)


def _refer_zipped(member: zipfile.ZipInfo, path: str) -> ImageRef:
    name, kind = clean_name(member.filename), _ZIP_KINDS.get(member.compress_type)
    if kind is None or member.flag_bits & _ENCRYPTED:
        how = "is encrypted" if kind else f"is packed by the method {member.compress_type}"
        message = f"in {path!r} it {how}, which is not read; unpack the archive, or zip it again"
        return ImageRef(name, member.file_size, 0, UNSUPPORTED, message)
    location = Location(path, kind, member.header_offset, member.compress_size, crc=member.CRC)
    return ImageRef(name, member.file_size, 0, location=location)


def clean_name(name: str) -> str:
    """A member's name as a path below a folder; it ends at its first zero, as `zipfile` has it."""
    name, _, _ = name.partition("\0")
    return posixpath.normpath(name.replace("\\", "/")).lstrip("/")


def _is_hidden(name: str) -> bool:
    """Whether no folder would list it: macOS's metadata, and what begins with a dot."""
    parts = name.split("/")
    return "__MACOSX" in parts or any(p.startswith(".") and p not in (".", "..") for p in parts)
