"""The books, classes and shards of a data set, from its manifest; and sample images of classes."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.report.data_set import DataSet
from image_pipeline.show.ingest_summary import summarize_manifest

_MOST_SAMPLES = 96
_MOST_A_CLASS = 8
_MOST_VALUES = 24


@dataclasses.dataclass(frozen=True)
class ClassCounts:
    """The records of a class: in each split, in their order, and in all."""

    name: str
    counts: list[int]
    total: int


@dataclasses.dataclass(frozen=True)
class ClassTable:
    """Records of each class in each split.

    Attributes:
      rows: of the classes, the largest first.
      missing: pairs of a split and how many classes it lacks.
      ratio: of the largest class to the smallest one; None without classes.
    """

    splits: list[str]
    rows: list[ClassCounts]
    missing: list[tuple[str, int]]
    ratio: float | None


@dataclasses.dataclass(frozen=True)
class ShardTable:
    """The shards of a split: how many, their records and bytes, the least and most in a shard."""

    split: str
    shards: int
    records: int
    least_records: int
    most_records: int
    bytes: int
    least_bytes: int
    most_bytes: int


@dataclasses.dataclass(frozen=True)
class ClassSample:
    """Some records of a class: rows of the index."""

    name: str
    rows: list[int]


@dataclasses.dataclass(frozen=True)
class Samples:
    """Some records of some of so many classes, in the order of their names."""

    classes: int
    rows: list[ClassSample]


def describe_books(manifest: Manifest) -> dict[str, Any]:
    """What became of the files found: `summarize_manifest`'s numbers, and whether they add up."""
    books = manifest.books
    return summarize_manifest(manifest) | {"balanced": books.found == books.accounted}


def describe_classes(counts: Mapping[str, Mapping[str, int]]) -> ClassTable:
    """Tells each class's records from the books' counts, by split."""
    splits = list(counts)
    names = sorted({name for own in counts.values() for name in own})
    rows = [
        ClassCounts(name, own, sum(own))
        for name in names
        for own in [[counts[split].get(name, 0) for split in splits]]
    ]
    rows.sort(key=lambda row: -row.total)
    missing = [(split, sum(not counts[split].get(name) for name in names)) for split in splits]
    return ClassTable(
        splits=splits,
        rows=rows,
        missing=[(split, lacking) for split, lacking in missing if lacking],
        ratio=rows[0].total / rows[-1].total if rows and rows[-1].total else None,
    )


def describe_shards(manifest: Manifest) -> list[ShardTable]:
    """The shards of each split."""
    rows = []
    for name, split in manifest.splits.items():
        records = [each.records for each in split.shards]
        sizes = [each.bytes for each in split.shards]
        rows.append(
            ShardTable(
                split=name,
                shards=len(split.shards),
                records=sum(records),
                least_records=min(records, default=0),
                most_records=max(records, default=0),
                bytes=sum(sizes),
                least_bytes=min(sizes, default=0),
                most_bytes=max(sizes, default=0),
            )
        )
    return rows


def choose_samples(data: DataSet) -> Samples:
    """Chooses a bounded number of images of each class, tag or class of boxes, by record id.

    Of more classes than images, every so many are shown. Of values, images are shown from the least
    to the greatest, at even ranks.
    """
    if data.values is not None:
        return _choose_by_value(data, data.values)
    among, label, names = _list_named(data)
    each = min(_MOST_A_CLASS, max(1, _MOST_SAMPLES // len(names)))
    shown = np.unique(np.linspace(0, len(names) - 1, min(len(names), _MOST_SAMPLES)).astype(int))
    order = np.argsort(label, kind="stable")
    ends = np.searchsorted(label[order], [shown, shown + 1])
    rows = [
        ClassSample(names[code], data.choose_rows(each, among[order[start:end]]).tolist())
        for code, start, end in zip(shown.tolist(), *ends.tolist(), strict=True)
    ]
    return Samples(len(names), rows)


def _list_named(data: DataSet) -> tuple[np.ndarray, np.ndarray, Sequence[str]]:
    """Pairs of a row and the number of its class's name, or of each tag or class of boxes it has.

    The third value is the names; rows without any have the name "", as those without a class.
    """
    lists = data.names
    if lists is None:
        return np.arange(len(data.index)), data.index.label, data.index.classes
    rows = pc.list_parent_indices(lists).to_numpy()
    bare = np.setdiff1d(np.arange(len(data.index)), rows)
    names = [*lists.flatten().to_pylist(), *[""] * len(bare)]
    found, label = np.unique(np.array(names, object), return_inverse=True)
    # An image with several boxes of a class is one of its images.
    pairs = np.unique(np.stack([label, np.concatenate([rows, bare])]), axis=1)
    return pairs[1], pairs[0], found.tolist()


def _choose_by_value(data: DataSet, values: np.ndarray) -> Samples:
    order = np.argsort(values, kind="stable")
    shown = np.unique(np.linspace(0, len(order) - 1, _MOST_VALUES).astype(int))
    rows = [ClassSample(data.say_label(row), [row]) for row in order[shown].tolist()]
    return Samples(len(rows), rows)
