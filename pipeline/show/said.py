"""What images are said to be where it is no class: masks, boxes, tags, values, counted."""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import index_name, scan_index
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.show.rows import format_classes, format_mask_classes
from image_pipeline.show.words import format_count, format_fact


def summarize_said(data_dir: str, manifest: Manifest) -> dict[str, Any]:
    """The numbers of what is said of a data set's images.

    Returns:
      `mask_classes` and `mask_pixels`, in the order of ids; `boxes` of each class; images with each
      of the `tags`; or `values`, with `least`, `mean` and `most`. {} for classes.
    """
    splits = manifest.splits.values()
    if (classes := manifest.mask_classes) is not None:
        pixels = _add_up(split.mask_pixels or {} for split in splits)
        counted = [pixels[str(number)] for number in range(len(classes))]
        return {"mask_classes": list(classes), "mask_pixels": counted}
    if (classes := manifest.box_classes) is not None:
        boxes = _add_up(split.box_counts or {} for split in splits)
        return {"boxes": {name: boxes[name] for name in classes}}
    if manifest.label is None:
        return {}
    columns = _scan(data_dir, index_name(manifest.label))
    if manifest.label == record.LABEL_COLUMNS["float"]:
        return _summarize_values(columns)
    tags = _add_up(collections.Counter(column.flatten().to_pylist()) for column in columns)
    return {"tags": dict(sorted(tags.items()))}


def said_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines of what `summarize_said` found."""
    if names := summary.get("mask_classes"):
        return [("mask classes", format_mask_classes(names, summary["mask_pixels"]))]
    for kind in ("boxes", "tags"):
        if counts := summary.get(kind):
            rows = [{"name": name, "records": count} for name, count in counts.items()]
            text = format_classes(rows)
            if kind == "boxes":
                of_what = format_count(len(rows), "class")
                text = f"{sum(counts.values()):,} of {of_what}, {text.partition(', ')[2]}"
            return [(kind, text)]
    if values := summary.get("values"):
        least, mean, most = (format_fact(values[name]) for name in ("least", "mean", "most"))
        return [("values", f"{least} to {most}, mean {mean}")]
    return []


def describe_survey(classes: Sequence[str], options: IngestOptions) -> str:
    """What images are said to be, before any is read.

    Args:
      classes: the names of classes, or tags, that were found.
      options: of ingest, with all that a table says.
    """
    if options.has_masks:
        named = options.masks and options.masks.classes
        return f"masks of {format_count(len(named), 'class')}" if named else "masks"
    if options.has_boxes and options.boxes is not None:
        return f"boxes of {format_count(len(options.boxes.classes or ()), 'class')}"
    type_ = options.further_types.get("label")
    if type_ == "float":
        return "values"
    return f"{len(classes):,} {'tags' if type_ == 'strings' else 'classes'}"


def _add_up(counts: Any) -> collections.Counter[str]:
    return sum(map(collections.Counter, counts), collections.Counter())


def _scan(data_dir: str, name: str) -> Iterator[pa.Array]:
    for table in scan_index(data_dir, [name]):
        yield table[name].combine_chunks()


def _summarize_values(columns: Iterator[pa.Array]) -> dict[str, Any]:
    parts = [column.to_numpy() for column in columns if len(column)]
    if not parts:
        return {}
    total = sum(float(part.sum()) for part in parts)
    return {
        "values": {
            "least": float(min(part.min() for part in parts)),
            "mean": total / sum(map(len, parts)),
            "most": float(max(part.max() for part in parts)),
        }
    }
