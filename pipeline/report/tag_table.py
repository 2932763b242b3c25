"""Tags of a data set: how many images have each, by split, and how many have none."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.report.classes import ClassTable, describe_classes
from image_pipeline.report.data_set import DataSet


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
