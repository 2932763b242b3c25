"""Images of each licence, those without one, and where images are from: a table's columns."""

import collections
import dataclasses
import urllib.parse
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.dataset.licences import find_attribution, find_licence
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.report.classes import ClassTable, describe_classes
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.shapes import Counts, count_values

_MOST = 24


@dataclasses.dataclass(frozen=True)
class Licences:
    """What a data set says of licences and attribution.

    Attributes:
      column: of licences; None if there is none.
      table: images of each licence by split; None without the column.
      missing: how many images have none; 0 without the column.
      without: rows of the first ones of these.
      attribution: of each column, the most frequent values, of addresses their hosts; "" is none.
    """

    column: str | None
    table: ClassTable | None
    missing: int
    without: list[int]
    attribution: Mapping[str, Counts]


def describe_licences(manifest: Manifest, data: DataSet) -> Licences | None:
    """Counts licences and attribution; None if no column is called so."""
    column, others = find_licence(manifest.further), find_attribution(manifest.further)
    if column is None and not others:
        return None
    table, without = None, list[int]()
    if column is not None:
        texts = pc.fill_null(data.table[column], "")
        counts = {
            split: dict(count_values(texts.filter(pa.array(data.split == number))))
            for number, split in enumerate(data.splits)
        }
        table = describe_classes(counts)
        without = np.flatnonzero(pc.equal(texts, "")).tolist()
    attribution = {}
    for name in others:
        found: collections.Counter[str] = collections.Counter()
        for value, count in count_values(pc.fill_null(data.table[name], "")):
            found[_name_host(value)] += count
        attribution[name] = sorted(found.items(), key=lambda row: (-row[1], row[0]))[:_MOST]
    return Licences(column, table, len(without), without[:_MOST], attribution)


def _name_host(text: str) -> str:
    """An address's host, and any other text as it is."""
    try:
        return urllib.parse.urlsplit(text).netloc or text
    except ValueError:  # It only looks like an address.
        return text
