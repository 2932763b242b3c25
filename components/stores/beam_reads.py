"""Lets Beam's own sources read object stores as everything else here does.

Beam's file systems for `s3://` and `az://` need clients of their own, which are not installed, and
take seconds of CPU for what obstore does in milliseconds. Their schemes are taken, so a URI that
Beam is to read is written `stored+s3://…`.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from apache_beam.io.filesystem import (
    BeamIOError,
    CompressionTypes,
    FileMetadata,
    FileSystem,
)

from image_pipeline.components.stores import remote

_PREFIX = "stored+"
_SCHEMES = ("s3://", "az://")


def name_for_beam(uri: str) -> str:
    """The URI by which Beam's sources read a store that only obstore opens; else, the path."""
    return _PREFIX + uri if uri.startswith(_SCHEMES) else uri


class StoredInS3(FileSystem):
    """What Beam's sources ask for: a list of files, their sizes, and ranges of their bytes.

    Beam finds it by its scheme as soon as this module is imported.
    """

    @classmethod
    def scheme(cls) -> str:
        """What URIs begin with."""
        return f"{_PREFIX}s3"

    def join(self, basepath: str, *paths: str) -> str:
        """A folder's URI and names below it, with slashes."""
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths)])

    def split(self, path: str) -> tuple[str, str]:
        """The folder's URI, and the name in it."""
        folder, _, name = path.rpartition("/")
        return folder, name

    def has_dirs(self) -> bool:
        """Stores have names only."""
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        """The files whose URIs begin so: lists the folder that the last slash ends."""
        for uri, size_bytes, modified_s in remote.list_tree(
            _bare(dir_or_prefix.rpartition("/")[0])
        ):
            if name_for_beam(uri).startswith(dir_or_prefix):
                yield FileMetadata(name_for_beam(uri), size_bytes, modified_s)

    def open(
        self,
        path: str,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,
    ) -> BinaryIO:
        """Opens a file for reading; ingest packs none."""
        if compression_type == CompressionTypes.AUTO:
            compression_type = CompressionTypes.detect_compression_type(path)
        if compression_type != CompressionTypes.UNCOMPRESSED:
            raise BeamIOError(
                f"{path} is compressed, but {_PREFIX} URIs are for files that are not"
            )
        return remote.open_input(_bare(path))

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return remote.is_file(_bare(path))

    def metadata(self, path: str) -> FileMetadata:
        """A file's size, and its time of change."""
        return FileMetadata(path, *remote.stat(_bare(path)))

    def size(self, path: str) -> int:
        """A file's size in bytes."""
        return self.metadata(path).size_in_bytes

    def last_updated(self, path: str) -> float:
        """A file's time of change, in seconds."""
        return self.metadata(path).last_updated_in_seconds

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise BeamIOError(f"{_PREFIX} URIs are for reading only")

    mkdirs = create = copy = rename = delete = _refuse


class StoredInAzure(StoredInS3):
    """The same for Azure's store."""

    @classmethod
    def scheme(cls) -> str:
        """What URIs begin with."""
        return f"{_PREFIX}az"


def _bare(uri: str) -> str:
    return uri.removeprefix(_PREFIX)
