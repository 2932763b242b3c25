"""The manifest: what a data set holds. It is written last: if it exists, the data set is complete.

It has its own checksum, and contains no times and no machine's paths: the same input, options and
seed give the same bytes.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import pydantic

from image_pipeline.components import files, json_files, json_text
from image_pipeline.components.dataset.checksums import (
    Count,
    ListedFile,
    ManifestPart,
    describe_file,
)
from image_pipeline.components.dataset.other_records import explain_no_data_set
from image_pipeline.components.dataset.paths import MANIFEST
from image_pipeline.components.dataset.record import (
    Column,
    ColumnType,
    PixelType,
    all_columns,
    further_columns,
    label_column,
)
from image_pipeline.components.errors import UserError

FORMAT_VERSION = 1
_CHECKSUM = "manifest_sha256"
_Level = Annotated[int, pydantic.Field(ge=0, le=255)]
_Sample = Annotated[int, pydantic.Field(ge=0, le=65_535)]
# A gray level or a colour of a mask's class.
_MaskLevel = Annotated[int, pydantic.Field(ge=0, le=65_535)]
_Shown = _MaskLevel | Annotated[str, pydantic.Field(pattern="^#[0-9a-fA-F]{6}$")]
_WAY_OUT = "restore it from a copy, or run ingest again"
# The keys of manifests from before there was a checksum: one without it may have no others.
_UNSEALED = {
    *("format_version", "found", "written", "duplicates", "quarantined", "quarantine_reasons"),
    *("conflicting_labels", "straddling", "classes", "near_duplicates", "splits", "files"),
    "options",
}


class Books(ManifestPart):
    """What became of the files found: each was written, a duplicate, quarantined or skipped.

    Attributes:
      found: how many files there were.
      written: how many records were written.
      duplicates: files left out because another one has the same bytes.
      quarantined: files that cannot be used.
      quarantine_reasons: how many of them for each reason, the most frequent first.
      skipped: files that are not images, or are left out by their paths; older data sets skipped
        nothing.
      skipped_kinds: how many there are of each kind, the most frequent first.
      skipped_examples: the path of one of each kind.
      conflicting_labels: files with the same bytes as another one, but another label.
      straddling: units (see `ingest.groups.Links`) with records in more than one split.
      classes: number of records of each class, by split.
      near_duplicates: sets of different images that look alike; None if there was no search.
    """

    found: Count
    written: Count
    duplicates: Count
    quarantined: Count
    quarantine_reasons: dict[str, Count]
    skipped: Count = 0
    skipped_kinds: dict[str, Count] = pydantic.Field(default_factory=dict)
    # Paths, which some versions of pydantic do not accept as str where they are not UTF-8.
    skipped_examples: dict[str, Any] = pydantic.Field(default_factory=dict)
    conflicting_labels: Count
    straddling: Count = 0
    classes: dict[str, dict[str, Count]]
    near_duplicates: Count | None = None

    @property
    def accounted(self) -> int:
        """How many files are accounted for."""
        return self.written + self.duplicates + self.quarantined + self.skipped


_Id = Annotated[str, pydantic.Field(pattern="^[0-9]{1,3}$")]


class ListedShard(ManifestPart):
    """A shard: its path below the data set's folder, number of records, size and checksum."""

    file: str
    records: Count
    bytes: Count
    sha256: str


class ListedSplit(ManifestPart):
    """A split: its number of records, its shards' total size, and the shards in order.

    With masks also how many pixels each class id has, and 255, which is of no class; with boxes how
    many boxes each class has, and the most that an image has.
    """

    records: Count
    bytes: Count
    shards: list[ListedShard]
    mask_pixels: dict[_Id, Count] | None = None
    box_counts: dict[str, Count] | None = None
    most_boxes: Count | None = None


class _Depth(ManifestPart):
    """Which values of 16 bits became 0 and 255, see `DepthOptions`."""

    low: int | str
    high: int | str
    found: list[_Sample] | None = pydantic.Field(None, min_length=2, max_length=2)

    @pydantic.model_validator(mode="after")
    def _check(self) -> "_Depth":
        low, high = self.found or (self.low, self.high)
        if not (isinstance(low, int) and isinstance(high, int) and low < high):
            raise ValueError(f"the values of 16 bits must be two numbers, got {low} and {high}")
        return self


class Square(ManifestPart):
    """What `resize: exact` distorts images to: its side, and whether smaller ones are, too."""

    size_px: Annotated[int, pydantic.Field(ge=1, lt=2**31)] = 256
    enlarge: bool = False


class _Prepared(Square):
    """How images were made, see `PrepareOptions`."""

    dtype: PixelType = "uint8"
    channels: Count | None = None
    color: str = "rgb"
    encoding: str = ""
    alpha_background: list[_Level] = pydantic.Field(
        default_factory=lambda: [255] * 3, min_length=3, max_length=3
    )
    depth: _Depth | None = None
    sound: dict[str, Any] | None = None
    resize: str = ""


class _Named(ManifestPart):
    """The classes of masks or boxes: their names, or also how masks show them."""

    classes: list[str] | dict[str, _Shown | list[_Shown]] | None = None


class _Stored(ManifestPart):
    """What is read of the options of ingest, without the ingest that knows them all."""

    prepare: _Prepared = pydantic.Field(default_factory=_Prepared)
    column_types: dict[str, ColumnType] = pydantic.Field(default_factory=dict)
    class_ids: bool = False
    classes: list[str] | None = None
    masks: _Named | None = None
    boxes: _Named | None = None
    leave_out: list[pydantic.InstanceOf[str]] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _check_boxes(self) -> "_Stored":
        if "boxes" in self.column_types.values() and not (self.boxes and self.boxes.classes):
            raise ValueError("there are boxes, but no boxes.classes")
        return self


class Manifest(ManifestPart):
    """What a data set holds.

    Attributes:
      format_version: `FORMAT_VERSION` at the time of writing.
      books: what became of the files found.
      splits: by name, in the order of the options.
      files: the files beside the shards, by name.
      options: the ingest options that affect the bytes, see `IngestOptions.stored_form`.
      checksum: of everything else; None before it is written, and in older manifests.
    """

    format_version: int
    books: Books
    splits: dict[str, ListedSplit]
    files: dict[str, ListedFile]
    options: dict[str, Any]
    checksum: str | None = None

    @pydantic.field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        json_files.check_json(options, _Stored)
        return options

    @property
    def further(self) -> tuple[Column, ...]:
        """The further columns of the records, as a table had them."""
        return further_columns(self.options.get("column_types", {}))

    @property
    def label(self) -> Column | None:
        """The column of labels that are not classes; None for a classification data set."""
        return label_column(self.further)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All features of a record, in their order."""
        has_masks = any(split.mask_pixels is not None for split in self.splits.values())
        return all_columns(self.further, has_masks, self.has_class_ids)

    @property
    def has_class_ids(self) -> bool:
        """Whether records number their class, see `class_names`."""
        return self.options.get("class_ids", False)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes in the order of their ids: as `ingest.classes` has them, or sorted.

        A transform graph of this data set has the same order, but only the analysed classes.
        """
        found = {name for own in self.books.classes.values() for name in own} - {""}
        return self.given_classes or tuple(sorted(found))

    @property
    def given_classes(self) -> tuple[str, ...]:
        """The labels that there may be, as `ingest.classes` has them; none if it was not given."""
        return tuple(self.options.get("classes") or ())

    @property
    def dtype(self) -> PixelType:
        """The type of the images' values."""
        return self.options.get("prepare", {}).get("dtype", "uint8")

    @property
    def alpha_background(self) -> tuple[int, int, int]:
        """The RGB colour on which transparent images were laid."""
        red, green, blue = self.options.get("prepare", {}).get("alpha_background", [255] * 3)
        return red, green, blue

    @property
    def depth(self) -> tuple[int, int]:
        """The values of 16 bits that became 0 and 255."""
        depth = self.options.get("prepare", {}).get("depth", {"low": 0, "high": 65_535})
        low, high = depth.get("found") or (depth["low"], depth["high"])
        return low, high

    @property
    def square(self) -> Square | None:
        """To what images were distorted by `resize: exact`; None where they kept their shape."""
        prepare = self.options.get("prepare", {})
        return Square.model_validate(prepare) if prepare.get("resize") == "exact" else None

    @property
    def channels(self) -> int | None:
        """How many channels all images have as they were; None for gray or RGB, as converted."""
        return self.options.get("prepare", {}).get("channels")

    def find_split(self, name: str, data_dir: str) -> ListedSplit:
        """A split of the data set, which lies in this folder.

        Raises:
          UserError: if there is no such split.
        """
        if name not in self.splits:
            raise UserError(
                f"split must be one of those in {data_dir}, got {name!r}; known: "
                f"{', '.join(self.splits)}."
            )
        return self.splits[name]

    def list_shards(self) -> Iterator[tuple[str, int, ListedShard]]:
        """Each shard, with its split and its number within the split."""
        for name, split in self.splits.items():
            for number, shard in enumerate(split.shards):
                yield name, number, shard

    def to_bytes(self) -> bytes:
        """The file's content, with its checksum."""
        rest = self.model_dump(include={"files", "options"})
        splits = {name: split.model_dump(exclude_none=True) for name, split in self.splits.items()}
        books = self.books.model_dump(exclude_none=True)
        sealed = seal({"format_version": self.format_version, **books, "splits": splits, **rest})
        return json.dumps(sealed, indent=1).encode() + b"\n"


def seal(content: dict[str, Any]) -> dict[str, Any]:
    """A manifest's JSON with its checksum."""
    return json_text.seal(content, _CHECKSUM)


def parse_manifest(content: bytes) -> Manifest:
    """Reads a manifest and verifies its checksum; older manifests have none.

    Raises:
      ValueError: if it is damaged.
    """
    parsed = json_text.parse_own(content)
    if not isinstance(parsed, dict):
        raise ValueError("it holds no names and values")
    if _CHECKSUM not in parsed:
        if unknown := sorted(parsed.keys() - _UNSEALED):
            raise ValueError(f"it has {', '.join(unknown)}, but no {_CHECKSUM}")
    elif parsed != seal(parsed):
        raise ValueError(f"its {_CHECKSUM} is not that of its content")
    if parsed.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
        raise ValueError(f"its format_version is {parsed['format_version']!r}")
    books = json_files.check_json(parsed, Books)
    checked = {**parsed, "books": books, "checksum": parsed.get(_CHECKSUM)}
    return json_files.check_json(checked, Manifest)


def read_manifest(data_dir: str) -> Manifest:
    """Reads a data set's manifest.

    Raises:
      FileNotFoundError: if there is none, so the data set is incomplete.
      UserError: if it is damaged.
    """
    path = files.join(data_dir, MANIFEST)
    content = json_files.read_whole(path, _WAY_OUT)
    try:
        return parse_manifest(content)
    except ValueError as error:
        raise UserError(
            f"{path!r} was changed since ingest wrote it ({error}); {_WAY_OUT}."
        ) from error


def read_whole_manifest(data_dir: str) -> Manifest:
    """Reads the manifest of a data set that the user named.

    Raises:
      UserError: if there is no complete data set, the manifest is damaged, or the folder's path is
        not UTF-8.
    """
    files.check_text(data_dir, "A data set")
    try:
        return read_manifest(data_dir)
    except FileNotFoundError as error:
        what = "is incomplete" if files.exists(data_dir) else "does not exist"
        raise UserError(
            explain_no_data_set(data_dir)
            or f"The data set {data_dir!r} {what}: it has no {MANIFEST}; check the path, or run "
            "again what was writing it."
        ) from error


def has_manifest(data_dir: str) -> bool:
    """Tells whether a folder holds a complete data set."""
    return files.exists(files.join(data_dir, MANIFEST))


def hash_manifest(data_dir: str) -> str:
    """The SHA-256 of the file, 64 hexadecimal digits: it identifies a data set."""
    return describe_file(files.join(data_dir, MANIFEST)).sha256
