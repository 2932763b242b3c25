"""What images are said to be where it is no class: masks, boxes, tags, values, counted."""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.dataset.index_file import index_name, scan_index
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.labels.boxes import CLIPPED, say_cut
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS, VALUES, find_kind
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.show.rows import format_classes, format_mask_classes
from image_pipeline.show.words import format_count, format_fact


def summarize_said(data_dir: str, manifest: Manifest) -> dict[str, Any]:
    """The numbers of what is said of a data set's images.

    Returns:
      `mask_classes` and `mask_pixels`, in the order of ids; `boxes` of each class, and in how many
      images some were cut at the edge (`images_of_cut_boxes`); images with each of the `tags`; or
      `values`, with `least`, `mean` and `most`. {} for classes.
    """
    kind = find_kind(manifest.columns)
    names, counts = kind.class_names(manifest), kind.counts(manifest, manifest.splits)
    if kind is MASKS:
        counted = [counts[str(number)] for number in range(len(names))]
        return {"mask_classes": list(names), "mask_pixels": counted}
    if kind is BOXES:
        told = (pc.starts_with(c.flatten(), f"{CLIPPED}:") for c in _scan(data_dir, "notes"))
        cut = sum(pc.sum(each).as_py() or 0 for each in told)
        return {"boxes": {name: counts[name] for name in names}, "images_of_cut_boxes": cut}
    if kind is CLASSES:
        return {}
    columns = _scan(data_dir, index_name(kind.columns[0]))
    if kind is VALUES:
        return _summarize_values(columns)
    tags = collections.Counter(name for column in columns for name in column.flatten().to_pylist())
    return {"tags": dict(sorted(tags.items()))}


def said_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines of what `summarize_said` found."""
    if names := summary.get("mask_classes"):
        return [("mask classes", format_mask_classes(names, summary["mask_pixels"]))]
    for kind in ("boxes", "tags"):
        if counts := summary.get(kind):
            rows = [{"name": name, "records": count} for name, count in counts.items()]
            text = format_classes(rows)
            if kind == "tags":
                return [(kind, text)]
            of_what = format_count(len(rows), "class")
            text = f"{sum(counts.values()):,} of {of_what}, {text.partition(', ')[2]}"
            cut = say_cut(summary["images_of_cut_boxes"], summary["written"])
            return [(kind, text), *[("look at", cut)] * bool(cut)]
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
    kind = options.label_kind
    if kind is MASKS:
        named = options.masks and options.masks.classes
        return f"masks of {format_count(len(named), 'class')}" if named else "masks"
    if kind is BOXES and options.boxes is not None:
        return f"boxes of {format_count(len(options.boxes.classes or ()), 'class')}"
    return kind.name if kind is VALUES else f"{len(classes):,} {kind.name}"


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
