"""Numbers, classes, steps and options as people read them, on the page and in the terminal."""

import collections
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.evaluation.metrics import Estimate, is_share
from image_pipeline.components.messages import show
from image_pipeline.components.names import printable_text
from image_pipeline.components.options import Options

_THOUSAND = 1000
_MOST_NAMED = 3  # classes in one line


def format_value(value: float | None, unit: str = "") -> str:
    """A number with three to four digits and its unit: "", "px" or "B"; a dash for None."""
    if value is None or not math.isfinite(value):
        return "—" if value is None else str(value)
    if unit == "B":
        return format_bytes(value)
    number = f"{value:,.0f}" if abs(value) >= _THOUSAND or value == int(value) else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def format_bytes(size: float) -> str:
    """A size in decimal units: 999 B, 1.5 kB, 12.0 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < _THOUSAND:
            return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= _THOUSAND
    return f"{size:,.1f} TB"


def format_count(count: int, unit: str) -> str:
    """A number and the (singular) unit counted: 1 epoch, 2 epochs, 1,200 classes."""
    ending = "es" if unit.endswith("s") else "s"
    return f"{count:,} {unit}{'' if count == 1 else ending}"


def count_names(names: Iterable[str]) -> str:
    """Names and how often each occurs, as in "cat × 2, dog"."""
    counts = collections.Counter(names)
    return ", ".join(name if n == 1 else f"{name} × {n:,}" for name, n in counts.items())


def format_share(share: float) -> str:
    """A share in percent, with one decimal."""
    return f"{share * 100:.1f} %"


def format_figure(value: float | None, measure: str) -> str:
    """What a model is judged by: a share in percent, an error with five digits."""
    if value is not None and is_share(measure):
        return format_share(value)
    return format_fact(value)


def format_fact(value: Any) -> str:
    """A value of any kind in a table of differences."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.5g}"
    return str(value)


def make_breakable(text: str) -> Markup:
    """A text that may be wrapped after underscores and slashes, for file names."""
    escaped = str(escape(printable_text(text)))
    for mark in "_/":
        escaped = escaped.replace(mark, f"{mark}<wbr>")
    return Markup(escaped)


def format_range(least: str, most: str) -> str:
    """A range of values, or the one value if both are equal."""
    return least if least == most else f"{least} to {most}"


def format_change(value: float) -> str:
    """A difference, with its sign."""
    return f"{value:+,}" if isinstance(value, int) else f"{value:+,.4g}"


def format_seconds(seconds: float) -> str:
    """A time: 12.3 s, 4 min 5 s, 1 h 2 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_measured(value: float, interval: tuple[float, float] | None) -> str:
    """A figure, with its interval if there is one: "0.439 (0.415 to 0.464)"."""
    if interval is None:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # never 1e+04
    return f"{value:,.3f} ({interval[0]:,.3f} to {interval[1]:,.3f})"


def format_estimate(estimate: Estimate) -> str:
    """A figure with its interval; a dash for none."""
    if estimate.value is None:
        return "—"
    return format_measured(estimate.value, estimate.interval)


def format_numbers(value: Any) -> str:
    """A statistic in a few words: a number, up to eight numbers, or how many there are."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4f}"
    if not isinstance(value, list):  # null stands for NaN, and text may be anything.
        return show(value)
    if len(value) > 8 or any(isinstance(each, list) for each in value):
        return f"{len(value)} values"
    return ", ".join(
        f"{each:,.4f}" if isinstance(each, int | float) else show(each) for each in value
    )


def format_classes(classes: Sequence[Mapping[str, Any]]) -> str:
    """The number of classes, and those with the most and the fewest records, if counted."""
    if any(row["records"] is None for row in classes):
        return f"{len(classes):,}"
    most = max(classes, key=lambda row: row["records"])
    fewest = min(reversed(classes), key=lambda row: row["records"])
    ends = f"most {most['name']} ({most['records']:,}), fewest {fewest['name']}"
    return f"{len(classes):,}, {ends} ({fewest['records']:,})"


def format_mask_classes(names: Sequence[str], pixels: Sequence[int]) -> str:
    """The number of classes, and those with the most and the fewest pixels, as shares."""
    total = max(1, sum(pixels))
    rows = list(zip(pixels, names, strict=True))
    most, fewest = max(rows, key=lambda row: row[0]), min(reversed(rows), key=lambda row: row[0])
    ends = [f"{name} ({count / total:.2%} of pixels)" for count, name in (most, fewest)]
    return f"{len(names):,}, most {ends[0]}, fewest {ends[1]}"


def format_unknown_classes(unknown: Mapping[str, Mapping[str, int]], are_tags: bool = False) -> str:
    """How many records in each split have a class that no analysed record has; or how many tags.

    Args:
      unknown: as in `analysis.json`: split to name to records; not empty.
      are_tags: whether the names are tags, of which a record may have several.
    """
    splits = [
        f"{sum(counts.values()):,} of {split} ({', '.join(map(repr, list(counts)[:_MOST_NAMED]))}"
        f"{', …' if len(counts) > _MOST_NAMED else ''})"
        for split, counts in unknown.items()
    ]
    rule = "fed as 0 everywhere" if are_tags else "left out of loss, metrics and evaluation"
    return f"{'; '.join(splits)}: {rule}"


def format_constant_channels(channels: Sequence[int]) -> str:
    """The channels with a single value, and what was done about them."""
    return f"{', '.join(map(str, channels))}: one value everywhere, so divided by 1 (std 1)"


def describe_steps(steps: Sequence[Options]) -> list[str]:
    """Training's random steps, a line each: its name, and its options by name."""
    lines = []
    for step in steps:
        options = step.model_dump(mode="json", exclude_none=True)
        name = options.pop("op")
        if isinstance(step, UserStep):
            options = options["arguments"]
        # A length that is given in pixels is none as a share.
        settings = [
            f"{key} {_short(options[key])}" for key in options if f"{key}_px" not in options
        ]
        lines.append(f"{name} {', '.join(settings)}".strip())
    return lines or ["no random steps"]


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return " to ".join(map(_short, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


NOTES = {
    "frames": "animation, of which the first frame is used",
    "icc": "colour profile, converted to sRGB",
    "icc_broken": "unreadable colour profile, ignored",
    "icc_unused": "colour profile, not applied: values are kept as they are",
    "exif_broken": "unreadable EXIF data, taken as upright",
    "xmp_orientation": "a turn that only XMP names, not applied",
    "raw_exif_orientation": "a turn that only ImageMagick's text names, not applied",
    "alpha": "transparent pixels, laid on the background",
    "16bit": "16 bits per channel, of which 8 are kept",
    "10bit": "10 bits per channel, of which 8 are kept",
    "12bit": "12 bits per channel, of which 8 are kept",
    "window": "DICOM's window, outside of which all is black or white",
    "white_is_zero": "DICOM whose lowest value is white, kept as it is",
    "cmyk": "print colours (CMYK), converted to RGB",
    "arithmetic": "JPEG with arithmetic coding",
    "extra_bytes": "data goes on where the pixels have ended",
    "missing_scans": "progressive JPEG without its last details",
    "gray": "gray, stored as colour",
    "color": "colour, stored as gray",
    "float64": "64-bit numbers, rounded to 32 bits",
    "cut": "sound cut to its duration",
    "padded": "sound padded to its duration",
    "silent": "sound without any signal",
    "clipped_boxes": "boxes cut at the image's edge",
    "dropped_boxes": "boxes that cannot be used, left out",
}
"""What was unusual about an image, see `PreparedImage.notes`."""

REASONS = {
    "empty": "Empty files",
    "not_an_image": "Not an image",
    "archive": "Archives, to be unpacked first",
    "unsupported": "Formats that are not read",
    "truncated": "Files that end too early",
    "corrupt": "Damaged files",
    "too_large_file": "Files that are too large",
    "too_many_pixels": "Images of too many pixels",
    "too_small": "Images that are too small",
    "conflicting_label": "Same bytes, different labels",
    "bad_box": "Boxes that cannot be used",
    "bad_mask": "Masks that cannot be used",
    "missing_file": "Files that a table names, but that are not there",
    "mask_without_image": "Masks without an image",
    "mask_size": "Masks of another size than their image",
    "two_masks": "Images with two masks",
    "not_a_file": "Links to nowhere, pipes and devices",
    "outside": "Links that leave the images folder",
    "listed_twice": "Files that a table names twice",
    "too_large_video": "Videos that are too large",
    "generator_failed": "Errors of the generator",
    "text": "Texts",
    "system_file": "Left by an operating system",
    "other_file": "Of other kinds, such as videos and sounds",
    "listed_before": "Further names of a folder",
    "left_out": "Left out by a list",
    "other_mask": "Further masks of an image",
    "rare_class": "Of a class of too few images",
    "duplicate": "Copies of another file",
    "bad_row": "Rows of a table or generator that cannot be used",
    "wrong_type": "Rows with a value of the wrong type",
    "no_path": "Rows of a table that name no file",
    "no_label": "Images without a label",
    "no_mask": "Images without a mask",
    "unknown_label": "Labels that ingest.classes does not name",
    "unknown_split": "Splits that ingest.splits does not name",
    "vanished": "Files that were gone when they were to be read",
    "unreadable": "Files that the system does not let be read",
}
"""Why a file is in quarantine, or is not a record of its own."""


def explain_note(note: str) -> str:
    """What a note of the index means, without what follows its colon; itself if that is unknown."""
    return NOTES.get(note, note.replace("_", " "))


def explain_reason(reason: str) -> str:
    """What a reason of the quarantine means; the reason itself if that is unknown."""
    return REASONS.get(reason, reason[:1].upper() + reason[1:].replace("_", " "))


def explain_key(key: str) -> str:
    """What a note or a reason means, whichever it is."""
    return explain_note(key) if key in NOTES else explain_reason(key)
