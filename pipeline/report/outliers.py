"""The images that are unlike all others: as the model sees them, or by their colours."""

import dataclasses
from collections.abc import Sequence

from image_pipeline.components.evaluation import facts, unusual
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.pixels import ImageFigures, stack_tiny

_MOST_SHOWN = 24


@dataclasses.dataclass(frozen=True)
class Strange:
    """An image, by its row of the index, and how many times as far from the others as usual."""

    row: int
    times: float


@dataclasses.dataclass(frozen=True)
class Outliers:
    """The images that are unlike all others.

    Attributes:
      by: by what images are compared: "model" or "colours".
      groups: the farthest of them by their labels, in the order of their names.
    """

    by: str
    judged: int
    found: int
    groups: list[tuple[str, list[Strange]]]


def list_outliers(folder: str, counts: facts.Outliers, data: DataSet) -> Outliers:
    """What evaluation found, by what the model's last layer sees."""
    rows = facts.read_outliers(folder)[:_MOST_SHOWN]
    known = data.find_ids(each.record_id for each in rows)
    found = [Strange(known[each.record_id], each.times) for each in rows if each.record_id in known]
    return Outliers("model", counts.judged, counts.found, _group(found, data))


def find_outliers(measured: Sequence[ImageFigures], data: DataSet) -> Outliers:
    """Compares the measured images by their colours, 8 × 8 of each, without any model."""
    rows = [each.row for each in measured]
    found = unusual.find_outliers(stack_tiny(measured)) if measured else []
    strange = [Strange(rows[each.row], each.times) for each in found[:_MOST_SHOWN]]
    return Outliers("colours", len(rows), len(found), _group(strange, data))


def _group(found: Sequence[Strange], data: DataSet) -> list[tuple[str, list[Strange]]]:
    labels = sorted({data.say_label(each.row) for each in found})
    return [
        (label, [each for each in found if data.say_label(each.row) == label]) for label in labels
    ]
