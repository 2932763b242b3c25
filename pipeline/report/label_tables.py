"""What images are labelled with, by split, unless with classes: masks, tags, values or boxes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.labels.kinds import BOXES, MASKS
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


@dataclasses.dataclass(frozen=True)
class BoxesOfSplit:
    """The boxes of a split.

    Attributes:
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


def describe_labels(manifest: Manifest, data: DataSet) -> dict[str, Any]:
    """The table of a data set's kind of label by its name on the page; {} where it has classes.

    `mask_classes`, a `ClassTable` of the pixels of each class; `tags`, `values` or `boxes`.
    """
    if data.kind is MASKS:
        names = MASKS.class_names(manifest)
        pixels = {split: listed.mask_pixels or {} for split, listed in manifest.splits.items()}
        counts = {
            split: {name: own.get(str(number), 0) for number, name in enumerate(names)}
            for split, own in pixels.items()
        }
        return {"mask_classes": describe_classes(counts)}
    if data.kind is BOXES:
        counts = {name: split.box_counts or {} for name, split in manifest.splits.items()}
        splits = [_describe_boxes(data, number) for number in range(len(data.splits))]
        return {"boxes": BoxTable(describe_classes(counts), splits)}
    if (tags := data.tags) is not None:
        return {"tags": _describe_tags(data, tags)}
    if (values := data.values) is None:
        return {}
    of_split = [values[data.split == number] for number in range(len(data.splits))]
    rows = [
        ValueRow(name, len(own), float(own.mean()), np.percentile(own, QUARTILES).tolist())
        for name, own in zip(data.splits, of_split, strict=True)
    ]
    return {"values": ValueTable(rows, make_histogram(values))}


def _describe_tags(data: DataSet, tags: pa.ListArray) -> TagTable:
    encoded = tags.flatten().dictionary_encode()
    names, splits = encoded.dictionary.to_pylist(), len(data.splits)
    split = data.split[pc.list_parent_indices(tags).to_numpy()].astype(np.int64)
    pairs = split * len(names) + encoded.indices.to_numpy()
    counts = np.bincount(pairs, minlength=splits * len(names)).reshape(splits, len(names))
    by_split = zip(data.splits, counts.tolist(), strict=True)
    lengths = pc.list_value_length(tags).to_numpy(zero_copy_only=False)
    return TagTable(
        table=describe_classes(
            {name: dict(zip(names, own, strict=True)) for name, own in by_split}
        ),
        without=np.bincount(data.split[lengths == 0], minlength=splits).tolist(),
        median=float(np.median(lengths)),
        most=int(lengths.max()),
    )


def _describe_boxes(data: DataSet, number: int) -> BoxesOfSplit:
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
