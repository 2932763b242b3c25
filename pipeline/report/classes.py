"""The books, classes and shards of a data set, from its manifest; and sample images of classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.report.data_set import DataSet
from image_pipeline.show.ingest_summary import summarize_manifest

_MOST_SAMPLES = 96
_MOST_A_CLASS = 8


def describe_books(manifest: Manifest) -> dict[str, Any]:
    """What became of the files found: `summarize_manifest`'s numbers, and whether they add up."""
    books = manifest.books
    return summarize_manifest(manifest) | {"balanced": books.found == books.accounted}


def describe_classes(counts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Records of each class in each split.

    Args:
      counts: by split, as in the books.

    Returns:
      `splits`: names; `rows`: for each class its `name`, `total` and `counts` in the order of the
      splits, the largest class first; `missing`: pairs of a split and how many classes it lacks;
      `ratio`: the largest class's size over the smallest one's.
    """
    splits = list(counts)
    names = sorted({name for own in counts.values() for name in own})
    rows: list[dict[str, Any]] = [
        {"name": name, "counts": own, "total": sum(own)}
        for name in names
        for own in [[counts[split].get(name, 0) for split in splits]]
    ]
    rows.sort(key=lambda row: -row["total"])
    missing = [(split, sum(name not in counts[split] for name in names)) for split in splits]
    return {
        "splits": splits,
        "rows": rows,
        "missing": [(split, lacking) for split, lacking in missing if lacking],
        "ratio": rows[0]["total"] / rows[-1]["total"] if rows else None,
    }


def describe_shards(manifest: Manifest) -> list[dict[str, Any]]:
    """For each split its `shards`, `records` and `bytes`; the least and most of both in a shard."""
    described = []
    for name, split in manifest.splits.items():
        row = {"split": name, "shards": len(split.shards)}
        for what in ("records", "bytes"):
            own = [getattr(shard, what) for shard in split.shards]
            row |= {what: sum(own), f"least_{what}": min(own, default=0)}
            row |= {f"most_{what}": max(own, default=0)}
        described.append(row)
    return described


def choose_samples(data: DataSet) -> dict[str, Any]:
    """Chooses a bounded number of images of each class, by record id.

    Returns:
      `classes`: how many there are; `rows`: for each class shown its `name` and the rows of the
      index, in the order of the names. If there are more classes than images, evenly spaced ones
      are shown.
    """
    label, names = data.index.label, data.index.classes
    each = min(_MOST_A_CLASS, max(1, _MOST_SAMPLES // len(names)))
    shown = np.unique(np.linspace(0, len(names) - 1, min(len(names), _MOST_SAMPLES)).astype(int))
    order = np.argsort(label, kind="stable")
    ends = np.searchsorted(label[order], [shown, shown + 1])
    return {
        "classes": len(names),
        "rows": [
            {"name": names[code], "rows": data.choose_rows(each, order[start:end]).tolist()}
            for code, start, end in zip(shown.tolist(), *ends.tolist(), strict=True)
        ],
    }
