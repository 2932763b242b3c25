"""What images are said to be, by split, where it is no class: their tags, values or boxes."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.labels.kinds import BOXES
from image_pipeline.report.charts import Histogram, make_histogram
from image_pipeline.report.classes import ClassTable, describe_classes
from image_pipeline.report.data_set import DataSet

QUARTILES = (0, 25, 50, 75, 100)
# COCO's: areas in pixels below which a box is small, or medium.
SIZES = {"small": 32**2, "medium": 96**2, "large": np.inf}


@dataclasses.dataclass(frozen=True)
class TagTable:
    """Images with each tag.

    Attributes:
      table: their number, by tag and split.
      without: for each split, in the table's order, images without any tag.
      median, most: tags of an image.
    """

    table: ClassTable
    without: list[int]
    median: float
    most: int


def describe_tags(data: DataSet) -> dict[str, TagTable]:
    """`tags`; {} where labels are no tags."""
    tags = data.tags
    if tags is None:
        return {}
    lengths = pc.list_value_length(tags).to_numpy(zero_copy_only=False)
    without = np.bincount(data.split[lengths == 0], minlength=len(data.splits))
    return {
        "tags": TagTable(
            table=describe_classes(count_names(data, tags)),
            without=without.tolist(),
            median=float(np.median(lengths)),
            most=int(lengths.max()),
        )
    }


def count_names(data: DataSet, lists: pa.ListArray) -> dict[str, dict[str, int]]:
    """How often each name occurs in the lists, one a record, of each split."""
    encoded = lists.flatten().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    split = data.split[pc.list_parent_indices(lists).to_numpy()]
    pairs = split.astype(np.int64) * len(names) + encoded.indices.to_numpy()
    counts = np.bincount(pairs, minlength=len(data.splits) * len(names))
    by_split = counts.reshape(len(data.splits), len(names)).tolist()
    return {
        name: dict(zip(names, own, strict=True))
        for name, own in zip(data.splits, by_split, strict=True)
    }


@dataclasses.dataclass(frozen=True)
class ValueRow:
    """The values of a split: how many, their mean, and their quartiles from least to greatest."""

    split: str
    records: int
    mean: float
    quartiles: list[float]


@dataclasses.dataclass(frozen=True)
class ValueTable:
    """Values by split, and a histogram of all."""

    splits: list[ValueRow]
    histogram: Histogram | None


def describe_values(data: DataSet) -> dict[str, ValueTable]:
    """`values`; {} where labels are none."""
    values = data.values
    if values is None:
        return {}
    rows = [
        ValueRow(name, len(own), float(own.mean()), np.percentile(own, QUARTILES).tolist())
        for number, name in enumerate(data.splits)
        for own in [values[data.split == number]]
    ]
    return {"values": ValueTable(rows, make_histogram(values))}


@dataclasses.dataclass(frozen=True)
class BoxesOfSplit:
    """The boxes of a split.

    Attributes:
      split: its name.
      boxes: how many there are.
      images: how many images there are.
      without: how many of them have no box.
      median, most: boxes of an image.
      sizes: how many boxes are small, medium and large, by their area in the stored image.
      crowds: how many are around several objects.
    """

    split: str
    boxes: int
    images: int
    without: int
    median: float
    most: int
    sizes: Mapping[str, int]
    crowds: int


@dataclasses.dataclass(frozen=True)
class BoxTable:
    """Boxes of each class by split, and what those of each split are like."""

    table: ClassTable
    splits: list[BoxesOfSplit]


def describe_boxes(manifest: Manifest, data: DataSet) -> dict[str, BoxTable]:
    """`boxes`; {} without boxes."""
    if data.kind is not BOXES:
        return {}
    counts = {name: split.box_counts or {} for name, split in manifest.splits.items()}
    rows = [_describe_split(data, number) for number in range(len(data.splits))]
    return {"boxes": BoxTable(describe_classes(counts), rows)}


def _describe_split(data: DataSet, number: int) -> BoxesOfSplit:
    table = data.table.filter(pa.array(data.split == number))
    areas = table[index_name(record.BOX_AREA)]
    lengths = pc.list_value_length(areas).to_numpy()
    flat = areas.combine_chunks().flatten().to_numpy()
    steps = np.searchsorted([*SIZES.values()], flat, side="right")
    sizes = np.bincount(steps, minlength=len(SIZES)).tolist()
    crowds = table[index_name(record.BOX_CROWD)].combine_chunks().flatten()
    return BoxesOfSplit(
        split=data.splits[number],
        boxes=len(flat),
        images=len(lengths),
        without=int((lengths == 0).sum()),
        median=float(np.median(lengths)),
        most=int(lengths.max()),
        sizes=dict(zip(SIZES, sizes, strict=True)),
        crowds=int(np.sum(crowds.to_numpy())),
    )
