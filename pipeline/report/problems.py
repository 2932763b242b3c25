"""What is wrong or doubtful: quarantine, copies, conflicting labels, look-alikes, leakage."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from image_pipeline.components.dataset.lists import Duplicate, LookAlikes, Quarantined, read_list
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.ingest.groups import cluster_hashes
from image_pipeline.components.names import decode_name
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.pixels import ImageFigures
from image_pipeline.show.words import format_count

_MOST_A_REASON = 6
_MOST_GROUPS = 12
_MOST_MEMBERS = 8
_MOST_BITS = 4
"""In how many of 64 bits the hashes of images that look alike differ at most."""


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why so many files were rejected, and the first of them."""

    name: str
    count: int
    files: list[Quarantined]


@dataclasses.dataclass(frozen=True)
class Quarantine:
    """How many files were rejected, and why: keys of `show.words.REASONS`."""

    total: int
    reasons: list[Reason]


@dataclasses.dataclass(frozen=True)
class Member:
    """A file among others that are like it.

    Its split is "" if it is not stored; its row in the index is that of the stored file with the
    same bytes, None if there is none.
    """

    path: str
    label: str | None
    split: str
    row: int | None


@dataclasses.dataclass(frozen=True)
class Alike:
    """So many files of the same bytes, or images that look alike, and the first of them."""

    size: int
    members: list[Member]


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """Files with the same bytes, and those among them whose labels differ.

    Attributes:
      groups, files: how many there are.
      conflicts: how many files have another label than the first file of the same bytes.
      written: how many of them are stored all the same.
      largest, conflicting: the first groups.
    """

    groups: int
    files: int
    conflicts: int
    written: int
    largest: list[Alike]
    conflicting: list[Alike]


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


@dataclasses.dataclass(frozen=True)
class Check:
    """One kind of leakage.

    Attributes:
      name: what belongs together.
      found: how many cases; None if the check could not be made.
      note: what was compared, or how to make the check possible.
    """

    name: str
    found: int | None
    note: str


def describe_quarantine(data_dir: str, reasons: dict[str, int]) -> Quarantine:
    """Some files of each reason."""
    files: dict[str, list[Quarantined]] = collections.defaultdict(list)
    for line in read_list(data_dir, Quarantined):
        if len(files[line.reason]) < _MOST_A_REASON:
            files[line.reason].append(dataclasses.replace(line, path=decode_name(line.path)))
    rows = [Reason(name, count, files[name]) for name, count in reasons.items()]
    return Quarantine(sum(reasons.values()), rows)


def describe_duplicates(data_dir: str, data: DataSet) -> Duplicates:
    """Groups the files that ingest left out by the file whose bytes they have."""
    groups: dict[str, list[Duplicate]] = collections.defaultdict(list)
    for line in read_list(data_dir, Duplicate):
        groups[line.original].append(line)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    conflicting = [item for item in ordered if any(map(_is_conflict, item[1]))][:_MOST_GROUPS]
    largest = ordered[:_MOST_GROUPS]
    rows = data.find_rows(path for path, _ in [*largest, *conflicting])
    return Duplicates(
        groups=len(groups),
        files=sum(map(len, groups.values())),
        conflicts=sum(_is_conflict(line) for lines in groups.values() for line in lines),
        written=sum(line.written for lines in groups.values() for line in lines),
        largest=[_describe_group(*item, rows) for item in largest],
        conflicting=[_describe_group(*item, rows) for item in conflicting],
    )


def describe_near_duplicates(data_dir: str, data: DataSet) -> NearDuplicates:
    """Images that look alike; ask only if they were looked for."""
    lines = sorted(read_list(data_dir, LookAlikes), key=lambda line: -line.size)
    shown = lines[:_MOST_GROUPS]
    rows = data.find_rows(path for line in shown for path in line.paths[:_MOST_MEMBERS])
    largest = [
        Alike(
            line.size,
            [
                Member(name, label, split, rows.get(name))
                for path, label, split in zip(line.paths, line.labels, line.splits, strict=True)
                for name in [decode_name(path)]
            ][:_MOST_MEMBERS],
        )
        for line in shown
    ]
    straddling = sum(len(set(line.splits)) > 1 for line in lines)
    return NearDuplicates(len(lines), sum(line.size for line in lines), largest, straddling)


def find_look_alikes(measured: Sequence[ImageFigures], data: DataSet) -> NearDuplicates:
    """Groups the measured images by their perceptual hashes, as `ingest.near_duplicates=4` does."""
    rows = np.array([each.row for each in measured], np.int64)
    hashes = np.array([each.perceptual_hash for each in measured], np.uint64)
    clusters = cluster_hashes(hashes, _MOST_BITS)
    sizes = np.bincount(clusters) if len(clusters) else np.zeros(0, np.int64)
    several = np.flatnonzero(sizes > 1)
    shown = several[np.argsort(-sizes[several], kind="stable")][:_MOST_GROUPS]
    largest = [
        Alike(
            len(members),
            [
                Member(data.name_source(row), data.say_label(row), data.split_of(row), row)
                for row in members[:_MOST_MEMBERS]
            ],
        )
        for number in shown.tolist()
        for members in [rows[clusters == number].tolist()]
    ]
    splits = np.unique(np.stack([clusters, data.split[rows]]), axis=1)[0]
    straddling = int((np.bincount(splits, minlength=1) > 1).sum())
    return NearDuplicates(len(several), int(sizes[several].sum()), largest, straddling, len(rows))


def _describe_group(original: str, copies: list[Duplicate], rows: dict[str, int]) -> Alike:
    path = decode_name(original)
    named = [(path, copies[0].original_label)]
    named += [(decode_name(each.path), each.label) for each in copies[:_MOST_MEMBERS]]
    members = [Member(name, label, "", rows.get(path)) for name, label in named]
    return Alike(len(copies) + 1, members)


def _is_conflict(line: Duplicate) -> bool:
    return line.label != line.original_label


def check_leakage(
    data_dir: str, manifest: Manifest, data: DataSet, alike: NearDuplicates
) -> list[Check]:
    """Counts images that belong together but are in several splits."""
    # Stored copies whose split is not their original's.
    written = [line for line in read_list(data_dir, Duplicate) if line.written]
    rows = data.find_rows(path for line in written for path in (line.path, line.original))
    split = {path: int(data.split[row]) for path, row in rows.items()}
    pairs = ((decode_name(line.path), decode_name(line.original)) for line in written)
    copies = sum(split[path] != split[original] for path, original in pairs)
    looked = "groups of images that look alike, in two splits"
    if alike.compared is not None:
        looked += (
            f", among {format_count(alike.compared, 'image')}; ingest with --set "
            "ingest.near_duplicates=4 to keep them in one"
        )
    parted = None
    named = "no groups are named; ingest.group_pattern keeps a patient or a scene in one split"
    if manifest.options.get("group_pattern") is not None:
        named = "groups by group_pattern with records in two splits"
        groups = data.table["group"].combine_chunks().dictionary_encode()
        is_named = pc.not_equal(pc.fill_null(data.table["group"], ""), "").to_numpy()
        codes = pc.fill_null(groups.indices, 0).to_numpy()[is_named]
        of_split = np.unique(codes.astype(np.int64) * len(data.splits) + data.split[is_named])
        counts = np.unique(of_split // len(data.splits), return_counts=True)[1]
        parted = int((counts > 1).sum())
    same = "files with the same bytes that are stored in two splits"
    paths = "images that belong together, but for which split_pattern names different splits"
    return [
        Check("identical files", copies, same),
        Check("look-alikes", alike.straddling, looked),
        Check("groups", parted, named),
        Check("units that paths separate", manifest.books.straddling, paths),
    ]
