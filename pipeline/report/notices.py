"""What to look at first in a report, in a sentence each, with what to do about it."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.labels.boxes import CLIPPED, say_cut
from image_pipeline.components.labels.kinds import CLASSES, find_kind
from image_pipeline.components.training.history import History
from image_pipeline.report.classes import ClassTable
from image_pipeline.show.ingest_summary import shares_by_chance
from image_pipeline.show.words import format_count, format_share

_UNEVEN_CLASSES = 10
# Share of training's time. Below this, a faster input would hardly be noticed.
_MUCH_WAITING = 0.1
# What keeps together what must not be in several splits, by the check's name.
_KEPT_TOGETHER = {
    "identical files": "leave copies out (ingest.duplicates=keep_first)",
    "look-alikes": "ingest.near_duplicates=4 keeps them in one",
    "groups": "correct ingest.split_pattern, or let ingest.splits divide the groups",
    "units that paths separate": "correct ingest.split_pattern or the folders",
}


@dataclasses.dataclass(frozen=True)
class Notice:
    """A sentence, and the section that has the details."""

    section: str
    text: str


def name_labels(kind: str) -> str:
    """What people call labels of a kind, by its name."""
    return "labels" if kind == CLASSES.name else kind


def list_notices(figures: dict[str, Any], manifest: Manifest, trouble: str = "") -> list[Notice]:
    """Reads the figures for what may be wrong, what weighs most first.

    Args:
      figures: as `image_pipeline.report.figures.gather_figures` makes them.
      manifest: the data set's.
      trouble: of the run's folder, see `Source`.
    """
    found = [
        *_notice_folder(figures, trouble),
        *_notice_damage(figures),
        *_notice_meaning(figures, manifest),
        *_notice_run(figures),
    ]
    return [Notice(section, text) for section, text in found]


def _notice_folder(figures: dict[str, Any], trouble: str) -> Iterator[tuple[str, str]]:
    """Which run is shown, where it may not be the one that people think of."""
    latest = next(iter(figures.get("history") or ()), {"steps": ()})
    if trouble:
        yield "history", trouble
    elif any(step["state"] in ("failed", "unfinished") for step in latest["steps"]):
        text = f"Run {latest['run']}, the last one, has not finished; an earlier one is shown."
        yield "history", text


def _notice_damage(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What makes figures wrong: lost files, damaged records, and what is in several splits."""
    if not figures["books"]["balanced"]:
        yield "books", "The books do not balance: files are unaccounted for."
    if broken := figures["pixels"].undecodable:
        text = f"Stored images that cannot be decoded: {broken:,}; run image-pipeline verify."
        yield "pixels", text
    for check in figures["leakage"]:
        if check.found:
            text = f"In more than one split: {check.name} ({check.found:,}), so that evaluation"
            way_out = _KEPT_TOGETHER[check.name]
            if check.name == "look-alikes" and figures["near_duplicates"].compared is None:
                way_out = _KEPT_TOGETHER["units that paths separate"]  # Ingest joins all others.
            yield "leakage", f"{text} tests on what was trained on; {way_out}."


def _notice_meaning(figures: dict[str, Any], manifest: Manifest) -> Iterator[tuple[str, str]]:
    """What labels say that they should not."""
    if (judged := figures.get("judged_labels")) and judged["suspected"] and not judged["is_weak"]:
        counts = f"{judged['suspected']:,} of {judged['judged']:,}"
        text = f"Labels in doubt: {counts}; look at the first ones before anything else."
        yield "mislabelled", text
    books, kind = figures["books"], find_kind(manifest.columns)
    if conflicts := books["conflicting_labels"]:
        text = f"Files with the same bytes as one with {figures['another']}: {conflicts:,}"
        yield "conflicts", f"{text}; correct the {name_labels(kind.name)}, and ingest again."
    if rejected := books["quarantined"]:
        share = format_share(rejected / books["found"])
        text = f"Rejected files: {rejected:,} ({share}); repair them, and ingest again."
        yield "quarantine", text
    notes = dict(figures["shapes"].notes)
    if cut := say_cut(notes.get(CLIPPED, 0), books["written"]):
        yield "shapes", f"{cut}."
    if dropped := notes.get("dropped_boxes"):
        text = f"Images with boxes that cannot be used, left out: {dropped:,} of"
        way_out = "ingest.boxes.bad_boxes=quarantine lists them"
        yield "shapes", f"{text} {books['written']:,}; {way_out}."
    # Ingest stratifies by the class of an image: not by tags, boxes, or the pixels of masks.
    shared = ", or ingest.stratify=true" if shares_by_chance(manifest) else ""
    weighed = "" if kind.unweighted else ", or training.class_weights=balanced"
    if tags := figures.get("tags"):
        yield from _notice_classes(tags.table, "Tags", "records", "", weighed)
    elif boxes := figures.get("boxes"):
        yield from _notice_classes(boxes.table, "Classes", "boxes", "", weighed)
    else:
        yield from _notice_classes(figures["classes"], "Classes", "records", shared, weighed)
        if masks := figures.get("mask_classes"):
            yield from _notice_classes(masks, "Classes", "pixels", "", weighed)
    if inferred := len(figures["understood"]):
        text = f"What the images mean was inferred: {format_count(inferred, 'sentence')}"
        yield "understood", f"{text}; where one is wrong, set the option that it names."


def _notice_classes(
    table: ClassTable, names: str, units: str, shared: str, weighed: str
) -> Iterator[tuple[str, str]]:
    for split, lacking in table.missing:
        text = f"{names} without {units} in the split {split}: {lacking:,} of {len(table.rows):,}"
        yield "classes", f"{text}; more images{shared}."
    if table.ratio and table.ratio >= _UNEVEN_CLASSES:
        most, least = table.rows[0].name, table.rows[-1].name
        text = f"{most} has {table.ratio:,.0f} times the {units} of {least}"
        yield "classes", f"{text}; more images of the latter{weighed}."


def _notice_run(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if (evaluation := figures.get("evaluation")) and not evaluation.blessed:
        yield "verdict", "The model was not good enough to be pushed."
    if anomalies := sum(len(each.anomalies) for each in figures.get("anomalies") or []):
        yield "anomalies", f"Columns that do not fit the schema: {anomalies:,}."
    training: History | None = figures.get("training")
    if training is None:
        return
    unknown = (training.unknown_records or {}).items()
    if counts := ", ".join(f"{count:,} of {split}" for split, count in unknown if count):
        text = f"Records of classes unknown to training, left out of all figures: {counts}."
        yield "evaluation", text
    if (wait := training.input_wait) and wait.share >= _MUCH_WAITING:
        share = format_share(wait.share)
        text = f"Training waited for input {share} of its time; image-pipeline doctor says why."
        yield "training", text
    for curve in training.curves:
        best, values = curve.best_epoch, curve.eval or ()
        if any(None in (own or ()) for own in (curve.train, values)):
            yield "training", f"Not every value of {curve.name} is a number."
        if curve.name == "loss" and best and best < len(values):
            text = f"The eval loss was lowest after epoch {best} of {len(values)}; fewer epochs, or"
            yield "training", f"{text} training.early_stopping."
