"""The lists beside the shards: a line of JSON for each file that did not become a record."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeVar

import pydantic

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import describe_bytes
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import (
    DUPLICATES,
    MANIFEST,
    NEAR_DUPLICATES,
    QUARANTINE,
    SKIPPED,
)
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_files import check_json, read_whole
from image_pipeline.components.json_text import parse_own

# Names that are not UTF-8 have surrogates, which pydantic's own `str` may refuse.
Text = pydantic.InstanceOf[str]
CONFLICTING_LABEL = "conflicting_label"  # the reason for an undamaged file in quarantine
LEFT_OUT = "left_out"  # the kind of a skipped file that the option leave_out names


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the list `FILE`; its fields are the keys of the JSON."""

    FILE: ClassVar[str]


@dataclasses.dataclass(frozen=True)
class Quarantined(Line):
    """A file that cannot be used; its SHA-256 is None if it could not be read."""

    FILE = QUARANTINE
    path: Text
    reason: Text
    message: Text
    bytes: int
    sha256: str | None


@dataclasses.dataclass(frozen=True)
class Duplicate(Line):
    """A file with the bytes of an earlier one, and whether it was written nevertheless."""

    FILE = DUPLICATES
    path: Text
    original: Text
    sha256: str
    label: Text
    original_label: Text
    written: bool = False


@dataclasses.dataclass(frozen=True)
class LookAlikes(Line):
    """Different images that look alike."""

    FILE = NEAR_DUPLICATES
    size: int
    paths: list[Text]
    labels: list[Text]
    splits: list[Text]


@dataclasses.dataclass(frozen=True)
class Skipped(Line):
    """A file that is not an image, or is left out by its path."""

    FILE = SKIPPED
    path: Text
    kind: Text
    message: Text
    bytes: int


L = TypeVar("L", bound=Line)


def read_list(data_dir: str, kind: type[L]) -> list[L]:
    """Reads one of a data set's lists; keys that this version does not know are ignored.

    Raises:
      UserError: if it is not there, or damaged.
    """
    path = files.join(data_dir, kind.FILE)
    way_out = "`image-pipeline verify` lists all that is wrong, and ingest writes it again"
    try:
        content = read_whole(path, way_out)
    except FileNotFoundError as error:
        raise UserError(
            f"{data_dir!r} must hold {kind.FILE}, but it is gone; {way_out}."
        ) from error
    lines, found = content.splitlines(), list[L]()
    try:
        found.extend(check_json(parse_own(line), kind) for line in lines)
    except ValueError as error:
        raise UserError(
            f"{path!r} is damaged at line {len(found) + 1} ({error}); {way_out}."
        ) from error
    try:
        is_listed = read_manifest(data_dir).files.get(kind.FILE) == describe_bytes(content)
    except FileNotFoundError:  # Of an unfinished data set, any list is.
        is_listed = True
    if not is_listed:
        raise UserError(f"{path!r} is not the file that {MANIFEST} names; {way_out}.")
    return found


def write_list(data_dir: str, kind: type[L], lines: Iterable[L]) -> None:
    """Writes a list in ASCII: names that are not UTF-8 are kept exactly, as escaped surrogates."""
    with files.write_atomically(files.join(data_dir, kind.FILE)) as file:
        for line in lines:
            file.write(json.dumps(vars(line)).encode() + b"\n")


def kept_copies(quarantined: Sequence[Quarantined]) -> dict[str, int]:
    """The files of which a copy is kept: the SHA-256 of each, in order, and its size in bytes.

    Empty files, and those that could not be read, have nothing to keep; those with conflicting
    labels are undamaged, so they need no copy.
    """
    kept = [line for line in quarantined if line.reason != CONFLICTING_LABEL and line.bytes]
    return dict(sorted((line.sha256, line.bytes) for line in kept if line.sha256))
