"""What ingest found wrong or doubtful: quarantine, duplicates, look-alikes, conflicting labels."""

import collections
import dataclasses

from image_pipeline.components.dataset.lists import Duplicate, LookAlikes, Quarantined, read_list
from image_pipeline.components.names import decode_name
from image_pipeline.report.data_set import DataSet

_MOST_A_REASON = 6
MOST_GROUPS = 12
MOST_MEMBERS = 8


@dataclasses.dataclass(frozen=True)
class RejectedFile:
    """A file in quarantine."""

    path: str
    message: str
    bytes: int
    sha256: str | None


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why so many files were rejected, and the first of them."""

    name: str
    count: int
    files: list[RejectedFile]


@dataclasses.dataclass(frozen=True)
class Quarantine:
    """How many files were rejected, and why: keys of `show.plain_words.REASONS`."""

    total: int
    reasons: list[Reason]


@dataclasses.dataclass(frozen=True)
class Copies:
    """Files of the same bytes.

    Attributes:
      path, label: of the first one.
      row: of the first one in the index; None if it is not stored.
      size: how many there are.
      copies: of some others, pairs of a path and a label.
    """

    path: str
    label: str | None
    row: int | None
    size: int
    copies: list[tuple[str, str | None]]


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """Files with the same bytes, and those among them whose labels differ.

    Attributes:
      groups, files: how many there are.
      conflicts: how many files have another label than the first file of the same bytes.
      largest, conflicting: the first groups.
    """

    groups: int
    files: int
    conflicts: int
    largest: list[Copies]
    conflicting: list[Copies]


@dataclasses.dataclass(frozen=True)
class Member:
    """An image that looks like others; its row in the index is None if it is not stored."""

    path: str
    label: str | None
    split: str
    row: int | None


@dataclasses.dataclass(frozen=True)
class Alike:
    """So many images that look alike, and the first of them."""

    size: int
    members: list[Member]


@dataclasses.dataclass(frozen=True)
class NearDuplicates:
    """Images that look alike.

    Attributes:
      groups, images: how many groups there are, of how many images.
      largest: the first groups.
      straddling: how many groups are in several splits.
      compared: among how many images they were looked for; None if ingest did, among all.
    """

    groups: int
    images: int
    largest: list[Alike]
    straddling: int
    compared: int | None = None


def describe_quarantine(data_dir: str, reasons: dict[str, int]) -> Quarantine:
    """Some files of each reason.

    Args:
      data_dir: the data set's folder.
      reasons: how many files were rejected for each reason, as the manifest says.
    """
    files: dict[str, list[RejectedFile]] = collections.defaultdict(list)
    for line in read_list(data_dir, Quarantined):
        if len(files[line.reason]) < _MOST_A_REASON:
            file = RejectedFile(decode_name(line.path), line.message, line.bytes, line.sha256)
            files[line.reason].append(file)
    rows = [Reason(name, count, files[name]) for name, count in reasons.items()]
    return Quarantine(sum(reasons.values()), rows)


def describe_duplicates(data_dir: str, data: DataSet) -> Duplicates:
    """Groups the files that ingest left out by the file whose bytes they have."""
    groups: dict[str, list[Duplicate]] = collections.defaultdict(list)
    for line in read_list(data_dir, Duplicate):
        groups[line.original].append(line)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    conflicting = [item for item in ordered if any(map(_is_conflict, item[1]))][:MOST_GROUPS]
    largest = ordered[:MOST_GROUPS]
    rows = data.find_rows(path for path, _ in [*largest, *conflicting])
    return Duplicates(
        groups=len(groups),
        files=sum(map(len, groups.values())),
        conflicts=sum(_is_conflict(line) for lines in groups.values() for line in lines),
        largest=[_describe_group(*item, rows) for item in largest],
        conflicting=[_describe_group(*item, rows) for item in conflicting],
    )


def describe_near_duplicates(data_dir: str, data: DataSet) -> NearDuplicates:
    """Images that look alike; ask only if they were looked for."""
    lines = sorted(read_list(data_dir, LookAlikes), key=lambda line: -line.size)
    shown = lines[:MOST_GROUPS]
    rows = data.find_rows(path for line in shown for path in line.paths[:MOST_MEMBERS])
    largest = [Alike(line.size, _describe_members(line, rows)) for line in shown]
    straddling = sum(len(set(line.splits)) > 1 for line in lines)
    return NearDuplicates(len(lines), sum(line.size for line in lines), largest, straddling)


def _describe_group(original: str, copies: list[Duplicate], rows: dict[str, int]) -> Copies:
    path = decode_name(original)
    return Copies(
        path=path,
        label=copies[0].original_label,
        row=rows.get(path),
        size=len(copies) + 1,
        copies=[(decode_name(each.path), each.label) for each in copies[:MOST_MEMBERS]],
    )


def _describe_members(line: LookAlikes, rows: dict[str, int]) -> list[Member]:
    members = list(zip(line.paths, line.labels, line.splits, strict=True))
    return [
        Member(name, label, split, rows.get(name))
        for path, label, split in members[:MOST_MEMBERS]
        for name in [decode_name(path)]
    ]


def _is_conflict(line: Duplicate) -> bool:
    return line.label != line.original_label
