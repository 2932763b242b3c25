"""Boxes of a data set: how many of each class, by split, how many an image has, how large."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.labels.kinds import BOXES, find_kind
from image_pipeline.report.classes import ClassTable, describe_classes
from image_pipeline.report.data_set import DataSet

# COCO's: areas in pixels below which a box is small, or medium.
SIZES = {"small": 32**2, "medium": 96**2, "large": np.inf}


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
    if find_kind(manifest.columns) is not BOXES:
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
