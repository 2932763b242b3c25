"""Values of a data set: how they are distributed, in all and by split."""

import dataclasses

import numpy as np

from image_pipeline.report.data_set import DataSet
from image_pipeline.report.histogram import Histogram, make_histogram

QUARTILES = (0, 25, 50, 75, 100)


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
