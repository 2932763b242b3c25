"""What to look at first in a report, in a sentence each, with what to do about it."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from image_pipeline.components.labels.boxes import CLIPPED, say_cut
from image_pipeline.components.training.history import History
from image_pipeline.report.classes import ClassTable
from image_pipeline.show.words import format_share

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


def list_notices(figures: dict[str, Any]) -> list[Notice]:
    """Reads the figures for what may be wrong, what weighs most first.

    Args:
      figures: as `image_pipeline.report.figures.gather_figures` makes them.
    """
    found = [*_notice_damage(figures), *_notice_meaning(figures), *_notice_run(figures)]
    return [Notice(section, text) for section, text in found]


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
            yield "leakage", f"{text} asks what was trained on; {_KEPT_TOGETHER[check.name]}."


def _notice_meaning(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What labels say that they should not."""
    if (judged := figures.get("judged_labels")) and judged["suspected"] and not judged["is_weak"]:
        counts = f"{judged['suspected']:,} of {judged['judged']:,}"
        text = f"Labels in doubt: {counts}; look at the first ones before anything else."
        yield "mislabelled", text
    books = figures["books"]
    if conflicts := books["conflicting_labels"]:
        text = f"Files with the same bytes as one with {figures['another']}: {conflicts:,}"
        yield "conflicts", f"{text}; correct the labels, and ingest again."
    if rejected := books["quarantined"]:
        share = format_share(rejected / books["found"])
        text = f"Rejected files: {rejected:,} ({share}); repair them, and ingest again."
        yield "quarantine", text
    if tags := figures.get("tags"):
        yield from _notice_classes(tags.table, "record", "tag")
    elif boxes := figures.get("boxes"):
        if cut := say_cut(dict(figures["shapes"].notes).get(CLIPPED, 0), books["written"]):
            yield "shapes", f"{cut}."
        yield from _notice_classes(boxes.table, "box")
    else:
        weighed = ", or training.class_weights=balanced"
        yield from _notice_classes(figures["classes"], "record", weighed=weighed)
        if masks := figures.get("mask_classes"):
            yield from _notice_classes(masks, "pixel")


def _notice_classes(
    table: ClassTable, unit: str, kind: str = "class", weighed: str = ""
) -> Iterator[tuple[str, str]]:
    total, kinds = len(table.rows), "Tags" if kind == "tag" else "Classes"
    units = "boxes" if unit == "box" else f"{unit}s"
    for split, lacking in table.missing:
        text = f"{kinds} without a {unit} in the split {split}: {lacking:,} of {total:,}"
        yield "classes", f"{text}; more images, or ingest.stratify=true."
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
