"""What to look at first in a report, in a sentence each."""

import dataclasses
from typing import Any

from image_pipeline.components.labels.boxes import CLIPPED, say_cut
from image_pipeline.components.training.history import History
from image_pipeline.report.classes import ClassTable
from image_pipeline.report.leakage import Check
from image_pipeline.show.words import format_share

_UNEVEN_CLASSES = 10
# Share of training's time. Below this, a faster input would hardly be noticed.
_MUCH_WAITING = 0.1


@dataclasses.dataclass(frozen=True)
class Notice:
    """A sentence, and the section that has the details."""

    section: str
    text: str


def list_notices(figures: dict[str, Any]) -> list[Notice]:
    """Reads the figures for what may be wrong.

    Args:
      figures: as `image_pipeline.report.figures.gather_figures` makes them.
    """
    found = [
        *_notice_books(figures),
        *_notice_labels(figures),
        *_notice_leakage(figures["leakage"]),
        *_notice_run(figures),
    ]
    return [Notice(section, text) for section, text in found]


def _notice_books(figures: dict[str, Any]) -> list[tuple[str, str]]:
    books = figures["books"]
    found = []
    if not books["balanced"]:
        found.append(("books", "The books do not balance: files are unaccounted for."))
    if rejected := books["quarantined"]:
        share = rejected / books["found"]
        found.append(("quarantine", f"Rejected files: {rejected:,} ({format_share(share)})."))
    if conflicts := books["conflicting_labels"]:
        found.append(
            ("conflicts", f"Files with the same bytes as one of another class: {conflicts:,}.")
        )
    if broken := figures["pixels"].undecodable:
        found.append(
            (
                "pixels",
                f"Stored images that cannot be decoded: {broken:,}; run image-pipeline verify.",
            )
        )
    return found


def _notice_labels(figures: dict[str, Any]) -> list[tuple[str, str]]:
    if tags := figures.get("tags"):
        return _notice_classes(tags.table, "record", "tag")
    if boxes := figures.get("boxes"):
        cut = say_cut(dict(figures["shapes"].notes).get(CLIPPED, 0), figures["books"]["written"])
        found = [("shapes", f"{cut}.")] if cut else []
        return found + _notice_classes(boxes.table, "box")
    masks = figures.get("mask_classes")
    of_masks = _notice_classes(masks, "pixel") if masks else []
    return _notice_classes(figures["classes"], "record") + of_masks


def _notice_classes(table: ClassTable, unit: str, kind: str = "class") -> list[tuple[str, str]]:
    total, kinds = len(table.rows), "Tags" if kind == "tag" else "Classes"
    units = "boxes" if unit == "box" else f"{unit}s"
    found = [
        (
            "classes",
            f"{kinds} without a {unit} in the split {split}: {lacking:,} of {total:,}.",
        )
        for split, lacking in table.missing
    ]
    if table.ratio and table.ratio >= _UNEVEN_CLASSES:
        text = f"The largest {kind} has {table.ratio:,.0f} times the {units} of the smallest."
        found.append(("classes", text))
    return found


def _notice_leakage(checks: list[Check]) -> list[tuple[str, str]]:
    return [
        ("leakage", f"In more than one split: {check.name} ({check.found:,}).")
        for check in checks
        if check.found
    ]


def _notice_run(figures: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    if anomalies := sum(len(each.anomalies) for each in figures.get("anomalies") or []):
        found.append(("anomalies", f"Columns that do not fit the schema: {anomalies:,}."))
    if (evaluation := figures.get("evaluation")) and not evaluation.blessed:
        found.append(("verdict", "The model was not good enough to be pushed."))
    if (judged := figures.get("judged_labels")) and judged["suspected"] and not judged["is_weak"]:
        counts = f"{judged['suspected']:,} of {judged['judged']:,}"
        found.append(("mislabelled", f"Labels in doubt: {counts}."))
    training: History | None = figures.get("training")
    return found + (_notice_training(training) if training else [])


def _notice_training(training: History) -> list[tuple[str, str]]:
    found = []
    unknown = (training.unknown_records or {}).items()
    if counts := ", ".join(f"{count:,} of {split}" for split, count in unknown if count):
        text = f"Records of classes unknown to training, left out of all figures: {counts}."
        found.append(("evaluation", text))
    if (wait := training.input_wait) and wait.share >= _MUCH_WAITING:
        share = format_share(wait.share)
        text = f"Training waited for input {share} of its time; image-pipeline doctor says why."
        found.append(("training", text))
    for curve in training.curves:
        best, values = curve.best_epoch, curve.eval or ()
        if any(None in (own or ()) for own in (curve.train, values)):
            found.append(("training", f"Not every value of {curve.name} is a number."))
        if curve.name == "loss" and best and best < len(values):
            text = f"The eval loss was lowest after epoch {best} of {len(values)}."
            found.append(("training", text))
    return found
