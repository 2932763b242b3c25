"""What an image's row of a table, or else its path, says of it: its label, its split, its group."""

import re
from collections.abc import Mapping
from typing import Any

from image_pipeline.components.dataset.record import order_names
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.kinds import CLASSES, MASKS
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.frames import FRAME
from image_pipeline.components.sources.references import ImageRef


def path_of(ref: ImageRef) -> str:
    """The path that says what an image is: its own, or that of the video whose frame it is."""
    is_frame = ref.location is not None and ref.location.kind == FRAME
    return ref.location.file if ref.location is not None and is_frame else ref.path


def match_pattern(pattern: str | None, group: str, path: str) -> str | None:
    """The named group of a pattern matched from the start of a path, or None."""
    found = re.match(pattern, path) if pattern else None
    return found[group] if found else None


def label_of(ref: ImageRef, options: IngestOptions) -> str | None:
    """An image's class; "" where the images have no labels, None where none is named."""
    if options.column_types.get("label", "string") != "string":
        return ""  # Tags or a value, which are not classes.
    is_stated = ref.annotations is not None and ref.annotations.label is not None
    if is_stated:
        label = ref.annotations.label  # type: ignore[union-attr]
    elif (pattern := options.path_label_pattern) is None:
        return ""
    else:
        label = match_pattern(pattern, "label", path_of(ref))
        label = label and decode_name(label)
    if label and options.labels is not None:
        label = options.labels.join(label)
    return label or None if is_stated else label


def find_tags(ref: ImageRef, options: IngestOptions) -> list[str] | None:
    """An image's tags; None where labels are classes or values."""
    if options.column_types.get("label") != "strings" or ref.annotations is None:
        return None
    tags: Any = ref.annotations.further[order_names(options.further_types).index("label")]
    return tags if options.labels is None else sorted({*map(options.labels.join, tags)})


def further_of(ref: ImageRef, options: IngestOptions) -> tuple[Any, ...]:
    """An image's further columns, tags and classes of boxes by the names that stand for them."""
    further: Any = () if ref.annotations is None else ref.annotations.further
    if options.labels is None or not further:
        return further
    values = dict(zip(order_names(options.further_types), further, strict=True))
    if options.column_types.get("label") == "strings":
        values["label"] = find_tags(ref, options)
    if "boxes" in values:
        size, boxes = values["boxes"]
        values["boxes"] = size, [box._replace(name=options.labels.join(box.name)) for box in boxes]
    return tuple(values.values())


def names_of(ref: ImageRef, options: IngestOptions) -> list[str]:
    """An image's tags or its class; none for a value, or where none is named."""
    kind = options.column_types.get("label")
    if kind == "strings" and (tags := find_tags(ref, options)) is not None:
        return tags
    label = label_of(ref, options)
    return [] if kind == "float" or label is None else [label]


def leave_out_rare(options: IngestOptions, classes: Mapping[str, int]) -> IngestOptions:
    """The options with the classes that have fewer images than `labels.min_images`.

    Raises:
      UserError: if images have tags, values or boxes instead.
    """
    if options.labels is None or not (least := options.labels.min_images):
        return options
    if options.label_kind not in (CLASSES, MASKS):
        raise UserError(
            f"ingest.labels.min_images is for classes, but images have {options.label_kind.name}; "
            "leave it out."
        )
    rare = tuple(name for name, count in classes.items() if name and count < least)
    return options.model_copy(update={"labels": options.labels.model_copy(update={"rare": rare})})


def split_of(ref: ImageRef, options: IngestOptions) -> str | None:
    """The split that an image is to be in, None where none is named."""
    if ref.annotations is not None and ref.annotations.split is not None:
        named = ref.annotations.split or None
    else:
        named = match_pattern(options.split_pattern, "split", path_of(ref))
    if named is None or (is_unassigned(named) and named not in options.split_names):
        return None
    return options.split_names.get(named, named)


def is_unassigned(split: str) -> bool:
    """Whether an image is to be shared out, in Vertex AI's word for it."""
    return split.lower() == "unassigned"
