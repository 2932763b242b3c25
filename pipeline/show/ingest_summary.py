"""An ingest in numbers and in lines, with its labels."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from image_pipeline.components.dataset.index_file import index_name, scan_index
from image_pipeline.components.dataset.lists import LEFT_OUT, Skipped, read_list
from image_pipeline.components.dataset.manifest import Manifest, read_manifest
from image_pipeline.components.dataset.paths import SKIPPED
from image_pipeline.components.labels.boxes import CLIPPED, say_cut
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS, VALUES, find_kind
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.names import decode_name, printable
from image_pipeline.show.words import (
    explain_note,
    format_classes,
    format_count,
    format_fact,
    format_mask_classes,
)

_MOST_NAMES = 5
_ANIMATION, _FLAC, _PROFILE = "animated WebP", "FLAC", "colour profile"
# What ingest reads, and TensorFlow, all that a served model has, does not.
_UNREAD = {
    **{"gif": "GIF", "bmp": "BMP", "tiff": "TIFF", "avif": "AVIF", "heic": "HEIC"},
    **{"jxl": "JPEG XL", "dicom": "DICOM"},
    "flac": _FLAC,
}
_NOT_SERVED = (*_UNREAD.values(), _ANIMATION)


def summarize_data_set(examples_dir: str) -> dict[str, Any]:
    """The numbers of an ingest, with what was understood, and said of its images.

    And `notes`, see `find_notes`; `share_out`, how a split gets the classes that it lacks;
    `unserved`, images that a served model sees differently, and `leave_out_unknown`: how many paths
    of `ingest.leave_out` are of no image, with the first of them as `leave_out_examples`.
    """
    manifest = read_manifest(examples_dir)
    described: dict[str, Any] = {"understood": list(manifest.options.get("understood", ()))}
    described |= _summarize_labels(examples_dir, manifest)
    if shares_by_chance(manifest):
        described["share_out"] = "ingest.stratify=true gives every class its share of each split"
    # Paths of `ingest.leave_out` that are of no image: of others, or misspelt.
    named = set(manifest.options.get("leave_out", ()))
    skipped = read_list(examples_dir, Skipped) if named and manifest.books.skipped else []
    found = {decode_name(each.path) for each in skipped if each.kind == LEFT_OUT}
    folders = {each for each in named if each.endswith("/")}
    known = {each for each in folders if any(path.startswith(each) for path in found)}
    unknown = sorted(named - found - known)
    return {
        **summarize_manifest(manifest),
        **described,
        "notes": find_notes(examples_dir),
        "unserved": count_unserved(examples_dir),
        "leave_out_unknown": len(unknown),
        "leave_out_examples": unknown[:_MOST_NAMES],
    }


def find_notes(examples_dir: str) -> dict[str, dict[str, Any]]:
    """How many images have each note, the most frequent first, and the first of their paths."""
    found: dict[str, dict[str, Any]] = {}
    for rows in scan_index(examples_dir, ["source", "notes"]):
        noted = rows["notes"].combine_chunks()
        kinds = pc.replace_substring_regex(noted.flatten(), ":.*", "")
        for kind in kinds.unique().to_pylist():
            images = pc.list_parent_indices(noted).filter(pc.equal(kinds, kind)).unique()
            note = found.setdefault(kind, {"images": 0, "examples": []})
            note["images"] += len(images)
            some = images[: _MOST_NAMES - len(note["examples"])]
            note["examples"] += rows["source"].take(some).to_pylist()
    return dict(sorted(found.items(), key=lambda item: (-item[1]["images"], item[0])))


def count_unserved(examples_dir: str) -> dict[str, int]:
    """Counts a data set's images by why serving differs from training; leaves out zeros."""
    counts: collections.Counter[str] = collections.Counter()
    for rows in scan_index(examples_dir, ["source_format", "notes"]):
        for source_format, kind in _UNREAD.items():
            counts[kind] += pc.sum(pc.equal(rows["source_format"], source_format)).as_py() or 0
        noted = rows.filter(pc.greater(pc.list_value_length(rows["notes"]), 0))
        for row in noted.to_pylist():
            counts[_PROFILE] += row["source_format"] not in _UNREAD and "icc" in row["notes"]
            is_animated = any(note.startswith("frames:") for note in row["notes"])
            counts[_ANIMATION] += row["source_format"] == "webp" and is_animated
    return {kind: counts[kind] for kind in (*_NOT_SERVED, _PROFILE) if counts[kind]}


def shares_by_chance(manifest: Manifest) -> bool:
    """Whether a split lacks a class only because images are shared out whatever their class."""
    options = manifest.options
    is_given = options.get("split_pattern") or options.get("columns", {}).get("split")
    chance = not is_given and not options.get("stratify")
    return chance and bool(find_missing_classes(manifest.books.classes))


def summarize_manifest(manifest: Manifest) -> dict[str, Any]:
    """The numbers of an ingest that are in its manifest."""
    books, splits = manifest.books, manifest.splits
    depth = manifest.options.get("prepare", {}).get("depth", {})
    return {
        "found": books.found,
        "written": books.written,
        "duplicates": books.duplicates,
        "quarantined": books.quarantined,
        "quarantine_reasons": books.quarantine_reasons,
        "skipped": books.skipped,
        "skipped_kinds": books.skipped_kinds,
        "skipped_examples": books.skipped_examples,
        "conflicting_labels": books.conflicting_labels,
        "near_duplicates": books.near_duplicates,
        "straddling": books.straddling,
        "splits": {name: split.records for name, split in splits.items()},
        "missing_classes": find_missing_classes(books.classes),
        "shards": {name: len(split.shards) for name, split in splits.items()},
        "bytes": sum(split.bytes for split in splits.values()),
        **({"depth_found": depth["found"]} if depth.get("found") else {}),
    }


def find_missing_classes(classes: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """For each split that lacks classes which another has, their names in order."""
    known = {name for own in classes.values() for name in own if name}
    missing = {split: sorted(known - own.keys()) for split, own in classes.items()}
    return {split: names for split, names in missing.items() if names}


def describe_inferred(understood: Iterable[str], noticed: Iterable[str]) -> list[tuple[str, str]]:
    """What was inferred of what a source means, and what is worth a look, a line each."""
    taken = [("taken as", printable(sentence)) for sentence in understood]
    return taken + [("look at", printable(sentence)) for sentence in noticed]


def _say_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def ingest_rows(ingest: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines that describe an ingest."""
    splits, reasons = (_say_counts(ingest[counts]) for counts in ("splits", "quarantine_reasons"))
    # The change since the last ingest must not go unnoticed: folders get replaced.
    before, written = ingest.get("written_before"), ingest["written"]
    changed = "" if before in (None, written) else f"; {before:,} before"
    taken = f", {ingest['taken']:,} of them as they were" if ingest.get("taken") else ""
    rows = [
        ("images found", f"{ingest['found']:,}{taken}"),
        *([("changed", _say_counts(ingest["changed"]))] if ingest.get("changed") else ()),
        ("written", f"{written:,} ({splits}){changed}"),
        ("rejected", f"{ingest['quarantined']:,}" + (f" ({reasons})" if reasons else "")),
        ("duplicates", f"{ingest['duplicates']:,}"),
        ("shards", f"{sum(ingest['shards'].values()):,}, {ingest['bytes'] / 1e6:,.1f} MB"),
        *_label_rows(ingest),
    ]
    if found := ingest.get("depth_found"):
        rows.append(("16 bits", f"{found[0]:,} to {found[1]:,} became 0 to 255"))
    if ingest.get("skipped"):
        examples = ingest["skipped_examples"]
        kinds = "; ".join(
            f"{kind} {count:,}, for example {examples[kind]}"
            for kind, count in ingest["skipped_kinds"].items()
        )
        what = "skipped" if LEFT_OUT in ingest["skipped_kinds"] else "skipped, not images"
        rows.append((what, f"{ingest['skipped']:,} ({kinds}); see {SKIPPED}"))
    for kind, note in ingest.get("notes", {}).items():
        names = _list_some(note["examples"], note["images"])
        rows.append(("noted", f"{explain_note(kind)} ({kind}): {note['images']:,}, {names}"))
    if unknown := ingest.get("leave_out_unknown"):
        names = _list_some(ingest["leave_out_examples"], unknown)
        text = f"{format_count(unknown, 'path')} of ingest.leave_out: {names}"
        rows.append(("of no image", text))
    for split, names in ingest["missing_classes"].items():
        way_out = f"; {ingest['share_out']}" if "share_out" in ingest else ""
        text = f"{format_count(len(names), 'class')}: {_list_some(names, len(names))}"
        rows.append((f"not in {split}", text + way_out))
    if ingest["conflicting_labels"]:
        rows.append(("same bytes, other label", f"{ingest['conflicting_labels']:,}"))
    if ingest["near_duplicates"] is not None:
        rows.append(("near-duplicate groups", f"{ingest['near_duplicates']:,}"))
    if ingest["straddling"]:
        rows.append(("units in several splits", f"{ingest['straddling']:,}"))
    # What a served model sees differently from training; see docs/transform.md.
    unserved = ingest.get("unserved", {})
    refused = ", ".join(f"{unserved[kind]:,} {kind}" for kind in _NOT_SERVED if kind in unserved)
    if refused:
        wav = ", and WAV for FLAC" if _FLAC in unserved else ""
        rows.append(("a server refuses", f"{refused}; send JPEG, PNG or WebP{wav}"))
    if _PROFILE in unserved:
        count = unserved[_PROFILE]
        rows.append(("served differently", f"{count:,} with a colour profile; send sRGB"))
    return rows


def _list_some(names: Sequence[str], count: int) -> str:
    """The first of so many names."""
    return ", ".join([*map(printable, names[:_MOST_NAMES]), *["…"] * (count > _MOST_NAMES)])


def _summarize_labels(data_dir: str, manifest: Manifest) -> dict[str, Any]:
    """The numbers of a data set's labels.

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
        noted = (table["notes"].combine_chunks() for table in scan_index(data_dir, ["notes"]))
        are_cut = (pc.starts_with(each.flatten(), f"{CLIPPED}:") for each in noted)
        cut = sum(pc.sum(each).as_py() or 0 for each in are_cut)
        return {"boxes": {name: counts[name] for name in names}, "images_of_cut_boxes": cut}
    if kind is CLASSES:
        return {}
    name = index_name(kind.columns[0])
    columns = (table[name].combine_chunks() for table in scan_index(data_dir, [name]))
    if kind is VALUES:
        values = np.concatenate([np.zeros(0), *(column.to_numpy() for column in columns)])
        if not len(values):
            return {}
        least, mean, most = float(values.min()), float(values.sum()) / len(values), values.max()
        return {"values": {"least": least, "mean": mean, "most": float(most)}}
    tags = collections.Counter(name for column in columns for name in column.flatten().to_pylist())
    return {"tags": dict(sorted(tags.items()))}


def _label_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines of what `_summarize_labels` found."""
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
    """The kind of labels, before any image is read."""
    kind = options.label_kind
    if kind is MASKS:
        named = options.masks and options.masks.classes
        return f"masks of {format_count(len(named), 'class')}" if named else "masks"
    if kind is BOXES and options.boxes is not None:
        return f"boxes of {format_count(len(options.boxes.classes or ()), 'class')}"
    return kind.name if kind is VALUES else f"{len(classes):,} {kind.name}"
