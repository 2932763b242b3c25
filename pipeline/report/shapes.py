"""Sizes, aspect ratios, formats, orientations and licences of all images, from the index."""

import collections
import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.dataset.licences import find_attribution, find_licence
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.report.charts import Histogram, make_histogram
from image_pipeline.report.classes import ClassTable, describe_classes
from image_pipeline.report.data_set import DataSet

_MOST_SIZES = 8
_MOST_NOTES = 12
# EXIF's: images with 5 to 8 are on their side, so width and height are swapped.
_FIRST_SIDEWAYS = 5
_ORIENTATIONS = {
    1: "upright",
    2: "mirrored",
    3: "turned by 180°",
    4: "mirrored upside down",
    5: "mirrored, on its side",
    6: "turned by 90°",
    7: "mirrored, on its other side",
    8: "turned by 270°",
}


_CHANNELS = {1: ("gray",), 3: ("colour",)}
_CHANNEL_NOTES = ["gray", "color"]
Counts = list[tuple[str, int]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shapes:
    """Distributions over all records, of their sources turned upright.

    Aspect is width by height. A histogram is None without a record. Counts are pairs of a name and
    a number, the most frequent first.
    """

    shorter_side: Histogram | None
    aspect: Histogram | None
    source_bytes: Histogram | None
    sizes: Counts
    formats: Counts
    stored_formats: Counts
    orientations: Counts
    channels: Counts
    notes: Counts


def describe_shapes(data: DataSet) -> Shapes:
    """Counts the sizes and kinds of all records."""
    table = data.table
    height = table["source_height"].to_numpy().astype(np.int64)
    width = table["source_width"].to_numpy().astype(np.int64)
    sideways = table["orientation"].to_numpy() >= _FIRST_SIDEWAYS
    height, width = np.where(sideways, width, height), np.where(sideways, height, width)
    packed, counts = np.unique(width << 32 | height, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_SIZES]
    sizes = [f"{size >> 32} × {size & 0xFFFFFFFF}" for size in packed[order].tolist()]
    # Of the notes, those that tell of something unusual, without their numbers.
    notes = pc.list_element(pc.split_pattern(pc.list_flatten(table["notes"]), ":"), 0)
    unusual = notes.filter(pc.invert(pc.is_in(notes, pa.array(_CHANNEL_NOTES))))
    channels = zip(data.index.channels.tolist(), table["notes"].to_pylist(), strict=True)
    kinds = collections.Counter(_say_channels(stored, set(own)) for stored, own in channels)
    return Shapes(
        shorter_side=make_histogram(np.minimum(height, width)),
        aspect=make_histogram(width / height),
        source_bytes=make_histogram(table["source_bytes"].to_numpy(), logarithmic=True),
        sizes=list(zip(sizes, counts[order].tolist(), strict=True)),
        formats=count_values(table["source_format"]),
        stored_formats=count_values(table["format"]),
        orientations=[
            (_ORIENTATIONS.get(code, str(code)), records)
            for code, records in count_values(table["orientation"])
        ],
        channels=sorted(kinds.items(), key=lambda row: (-row[1], row[0])),
        notes=count_values(unusual)[:_MOST_NOTES],
    )


def count_values(values: pa.ChunkedArray | pa.Array) -> list[tuple[Any, int]]:
    """Each value and how often it occurs: the most frequent first, then by value."""
    rows = [(each["values"], each["counts"]) for each in pc.value_counts(values).to_pylist()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _say_channels(stored: int, notes: set[str]) -> str:
    """The channels of a source: those that were stored, or those that ingest has merged."""
    if "cmyk" in notes:
        return "4, print colours (CMYK)"
    channels = 1 if "gray" in notes else 3 if "color" in notes else stored
    has_alpha = "alpha" in notes
    parts = [str(channels + has_alpha), *_CHANNELS.get(channels, ())]
    return ", ".join(parts) + (" with transparency" if has_alpha else "")


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
