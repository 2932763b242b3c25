"""A pointer: a small file in place of a data set that lies elsewhere in a store.

An engine that copies a step's inputs to the machine of the step then copies the pointer only.
"""

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import ManifestPart
from image_pipeline.components.dataset.manifest import Manifest, hash_manifest
from image_pipeline.components.dataset.paths import MANIFEST, POINTER
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_files import read_json


class Pointer(ManifestPart):
    """Where a data set is, and which one.

    Attributes:
      uri: its folder.
      manifest_sha256: of its manifest, 64 hexadecimal digits.
      records: how many it holds, in all splits.
      bytes: its shards' size in all.
      span: the number of the span that it was made of; 0 for a plain folder of images.
      version: the span's version, if it has any.
    """

    uri: str
    manifest_sha256: str
    records: int
    bytes: int
    span: int = 0
    version: int | None = None

    def properties(self) -> dict[str, str | int]:
        """What an engine shows of the artifact that it stands for, by name."""
        shown = {"data_set_uri": self.uri, "manifest_sha256": self.manifest_sha256}
        return {**shown, "records": self.records}


def make_pointer(
    data_dir: str, manifest: Manifest, span: int = 0, version: int | None = None
) -> Pointer:
    """Describes a complete data set."""
    splits = manifest.splits.values()
    return Pointer(
        uri=data_dir,
        manifest_sha256=hash_manifest(data_dir),
        records=sum(split.records for split in splits),
        bytes=sum(split.bytes for split in splits),
        span=span,
        version=version,
    )


def write_pointer(folder: str, pointer: Pointer) -> None:
    """Writes a pointer into a folder that stands for the data set."""
    content = pointer.model_dump_json(indent=1, exclude_none=True)
    files.write_file(files.join(folder, POINTER), content.encode() + b"\n")


def follow_pointer(folder: str) -> Pointer | None:
    """Reads the pointer in a folder, and makes sure that its data set is still there.

    Returns:
      The pointer; None if there is none, because the folder is the data set itself.

    Raises:
      UserError: if the data set was deleted or replaced, or the pointer is damaged.
    """
    path = files.join(folder, POINTER)
    try:
        pointer = read_json(path, Pointer, "run ingest again")
    except FileNotFoundError:
        return None
    _check_unchanged(pointer)
    return pointer


def _check_unchanged(pointer: Pointer) -> None:
    try:
        found = hash_manifest(pointer.uri)
    except FileNotFoundError as error:
        raise UserError(
            f"The data set {pointer.uri!r} was deleted, or its {MANIFEST} was; run ingest again, "
            "with caching off."
        ) from error
    if found != pointer.manifest_sha256:
        raise UserError(
            f"The data set {pointer.uri!r} was replaced: the SHA-256 of its {MANIFEST} must be "
            f"{pointer.manifest_sha256}, got {found}; run ingest again, with caching off."
        )
