"""What ingest cannot do with a kind of source, or with what its columns turn out to be.

Known are `images`, what is given as such; the `kind` of that source; the options of `ingest` as
given; and the same once they are `completed` by what the source says of its columns.
"""

from typing import Any

from image_pipeline.components.generators.generator import GENERATOR
from image_pipeline.components.labels.kinds import MASKS
from image_pipeline.components.rules import Rule
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.sources.source_kinds import name_endings


def _name_set(ingest: TableOptions) -> str | None:
    """An option of tables that is set; `pixel_shape` has a rule of its own."""
    names = (name for name in TableOptions.model_fields if name != "pixel_shape")
    return next(filter(ingest.is_set, names), None)


def _find_label(completed: Any) -> str | None:
    """What the label is, if it is not a class."""
    return {"strings": "tags", "float": "a value"}.get(completed.column_types.get("label", ""))


def _lacks_class(completed: Any) -> str | None:
    """Why images have no class, as a message goes on."""
    if label := _find_label(completed):
        return f"the label is {label}"
    has_none = completed.path_label_pattern is None and "label" not in completed.columns
    return "the images have none" if has_none else None


SOURCE = (
    Rule(
        lambda ingest, kind, images: ingest.pixel_shape is not None and not kind.takes_shape,
        "ingest.pixel_shape is for TFRecords and CSV, but {images!r} is {kind.name}; leave it out, "
        "or save pixels as .npy files.",
    ),
    Rule(
        lambda ingest, kind, images: ingest.generator is not None and kind is not GENERATOR,
        "ingest.generator is for images given as generator:MODULE:FUNCTION, got {images!r}; leave "
        "it out.",
    ),
    Rule(
        lambda ingest, kind, images: (
            not kind.has_rows
            and (name := _name_set(ingest))
            and (name, name_endings(is_table=True))
        ),
        "ingest.{found[0]} is for a table of images ({found[1]}), but {images!r} is not one; "
        "remove it.",
    ),
    Rule(
        lambda ingest, kind, images: ingest.prepare.depth.must_be_found and not kind.lists_images,
        "ingest.prepare.depth in percent is found in a pass over the images, but a generator's are "
        "not made twice ({images!r}); give both values as numbers, such as "
        "{{low: 0, high: 4095}}.",
    ),
    Rule(
        lambda ingest, kind, images: ingest.in_place and not kind.has_parts,
        "ingest.in_place is for files of arrays and archives, whose images are parts of them, but "
        "{images!r} is neither; remove it.",
    ),
    Rule(
        lambda ingest, kind, images: (
            ingest.masks is not None and kind.has_rows and ingest.masks.images is not None
        ),
        "ingest.masks.images and .masks are for a folder, but {images!r} is a table; leave them "
        "out, and name the masks' column by ingest.columns={{mask: …}}.",
    ),
    Rule(
        lambda ingest, kind, images: (
            ingest.masks is not None and not kind.has_rows and ingest.masks.images is None
        ),
        "ingest.masks must say where the masks in {images!r} are; set ingest.masks.images and "
        "ingest.masks.masks, such as images/{{key}}.* and masks/{{key}}.png.",
    ),
)
"""Which options a kind of source takes."""

COLUMNS = (
    Rule(
        lambda completed: completed.class_ids and _lacks_class(completed),
        "ingest.class_ids numbers each image's class, but {found}; leave it out.",
    ),
    Rule(
        lambda completed: completed.stratify in (True, "label") and _find_label(completed),
        "ingest.stratify shares out classes, but the label "
        "{completed.columns[label]!r} is {found}; name another column, or leave it out.",
    ),
    Rule(
        lambda completed: completed.classes is not None and _find_label(completed) == "a value",
        "ingest.classes lists classes, but the label {completed.columns[label]!r} is a value; "
        "leave it out, or set ingest.column_types={{label: string}}.",
    ),
    Rule(
        lambda completed, images: (
            completed.boxes is not None and "boxes" not in completed.column_types
        ),
        "ingest.boxes is set, but no column of {images!r} has a usual name for boxes; name it by "
        "ingest.columns={{boxes: …}}.",
    ),
    Rule(
        lambda completed, images: (
            "boxes" in completed.column_types and completed.label_kind is MASKS
        ),
        "images are given with boxes or with masks, but {images!r} has both; leave one out by "
        "ingest.columns={{boxes: null}} or {{mask: null}}.",
    ),
    Rule(
        lambda completed, kind, images: (
            kind.has_rows and completed.masks is not None and completed.columns.get("mask") is None
        ),
        "ingest.masks is set, but no column of {images!r} has a usual name for masks; name it by "
        "ingest.columns={{mask: …}}.",
    ),
    Rule(
        lambda completed: (
            isinstance(completed.stratify, str)
            and completed.stratify not in completed.column_types
            and (", ".join(completed.column_types) or "none; a folder has none")
        ),
        "ingest.stratify must name a further column of the table, got {completed.stratify!r}; "
        "columns: {found}. For classes, set it to true.",
    ),
)
"""What options ask of a source's columns."""
