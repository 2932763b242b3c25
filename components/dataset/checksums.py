"""Sizes and checksums of a data set's files, as listed in the manifest."""

import hashlib
import io
from typing import Annotated, Any, BinaryIO

import pydantic

from image_pipeline.components import files


class ManifestPart(pydantic.BaseModel):
    """A part of the manifest; keys that this version does not know are ignored."""

    model_config = pydantic.ConfigDict(frozen=True, strict=True)


Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
"""How many of something there are, in 64 bits."""


class ListedFile(ManifestPart):
    """A file's size, and its SHA-256 in 64 hexadecimal digits."""

    bytes: Count
    sha256: str


class HashedWriter(io.RawIOBase):
    """Passes what is written on to a file, if there is one, and computes its size and checksum."""

    def __init__(self, file: BinaryIO | None = None):
        """Takes the file, which stays open."""
        super().__init__()
        self._file = file
        self._digest = hashlib.sha256()
        self._size_bytes = 0

    def write(self, data: Any, /) -> int:
        """Writes all of it."""
        if self._file is not None:
            self._file.write(data)
        self._digest.update(data)
        self._size_bytes += len(data)
        return len(data)

    def writable(self) -> bool:
        """Always true."""
        return True

    def describe(self) -> ListedFile:
        """Size and checksum of what was written."""
        return ListedFile(bytes=self._size_bytes, sha256=self._digest.hexdigest())


def describe_file(path: str) -> ListedFile:
    """Reads a file's size and checksum."""
    written = HashedWriter()
    for block in files.read_blocks(path):
        written.write(block)
    return written.describe()


def describe_bytes(content: bytes) -> ListedFile:
    """Size and checksum of what a file holds."""
    return ListedFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def copy_file(source: str, target: str) -> ListedFile:
    """Copies a file, so that it appears whole, and describes it."""
    with files.write_atomically(target) as file:
        written = HashedWriter(file)
        for block in files.read_blocks(source):
            written.write(block)
    return written.describe()
