"""Reads, checks and prepares one image: every source is read once, here."""

import dataclasses
import hashlib
import json
import os
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.arrays.in_place import make_reference
from image_pipeline.components.dataset.lists import LEFT_OUT
from image_pipeline.components.dataset.paths import name_copy
from image_pipeline.components.dataset.record import make_record_id
from image_pipeline.components.images.depth import Levels
from image_pipeline.components.images.mask_file import BAD_MASK, MASK_SIZE
from image_pipeline.components.images.prepare import BadImage, PreparedImage, prepare_image
from image_pipeline.components.ingest.perceptual import hash_image
from image_pipeline.components.labels.boxes import BAD_BOX
from image_pipeline.components.labels.kind import Fitted
from image_pipeline.components.labels.kinds import MASKS
from image_pipeline.components.meaning.masks import has_mask_name, in_mask_folder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import (
    find_tags,
    further_of,
    group_of,
    is_rare,
    label_of,
    split_of,
)
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.pairs import match_template
from image_pipeline.components.sources.reading import (
    MISSING_FILE,
    SkippedFile,
    names_other_kind,
    try_read_pair,
)
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.tables.table import check_bad_row

Read = bytes | BadImage | SkippedFile


# What is wrong with a table's row, not with an image; that a file is missing behind a URI is only
# known when it is read.
_OF_ROWS = (MISSING_FILE, "no_label", "unknown_label", "unknown_split", "no_mask", BAD_BOX)
_LEFT_OUT = SkippedFile(LEFT_OUT, "named by ingest.leave_out")
_RARE = SkippedFile("rare_class", "its class has fewer images than ingest.labels.min_images")
_OTHER_MASK = SkippedFile(
    "other_mask", "named as a mask is, but as neither ingest.masks.images nor .masks says"
)


def prepare_source(
    ref: ImageRef, source: Source, work_dir: str, options: IngestOptions
) -> tuple[dict, bytes]:
    """Reads one reference and prepares its image.

    Returns:
      The source's row (see `ROW_SCHEMA`) and the bytes to store, b"" if it is not usable.
    """
    return prepare_data(ref, *read_pair(ref, source, options), work_dir, options)


def read_pair(ref: ImageRef, source: Source, options: IngestOptions) -> tuple[Read, Read | None]:
    """What is read of a reference and of its mask, or why it cannot be; None where it has none."""
    if options.leave_out and options.is_left_out(decode_name(ref.path)):
        return _LEFT_OUT, None
    if is_rare(ref, options):
        return _RARE, None
    if _is_other_mask(ref, options):
        return _OTHER_MASK, None
    prepare = options.prepare
    return try_read_pair(ref, source, prepare.max_file_bytes, prepare.sound is not None)


def prepare_data(
    ref: ImageRef,
    read: Read,
    mask: Read | None,
    work_dir: str,
    options: IngestOptions,
    levels: Levels | None = None,
) -> tuple[dict, bytes]:
    """Prepares what was read, or says why it could not be; returns as `prepare_source`.

    `levels` are as of `prepare_image`.
    """
    row: dict[str, Any] = columns_of(ref, options) | {"source_bytes": ref.size_bytes}
    if isinstance(read, SkippedFile):
        return row | {"is_skipped": True, "reason": read.kind, "message": read.message}, b""
    data = b""
    try:
        if isinstance(read, BadImage):
            raise read
        data = read
        content = hashlib.sha256(data).digest()
        row |= {"sha256": content, "source_bytes": len(data)}
        row["record_id"] = make_record_id(content, row["path"])
        _check_places(row, ref, options)
        image = prepare_image(data, options.prepare, levels)
        stored = make_reference(ref, data, image.encoded) if options.in_place else image.encoded
        fitted = _fit_label(ref, mask, image, options)
    except BadImage as error:
        if ref.annotations is not None and error.reason in _OF_ROWS:
            check_bad_row(error.message, options)
        _keep_copy(row, data, work_dir)
        return row | {"reason": error.reason, "message": error.message}, b""
    if options.near_duplicates is not None:
        row["perceptual_hash"] = hash_image(image)
    row |= _image_columns(image)
    row["notes"] += fitted.notes
    if fitted.features:
        assert ref.annotations is not None
        row["further"] = json.dumps([*further_of(ref, options)[:-1], *fitted.features])
    return {**row, **fitted.row}, fitted.stored + stored


def _fit_label(
    ref: ImageRef, mask: Read | None, image: PreparedImage, options: IngestOptions
) -> Fitted:
    """What is stored of what is said of an image; raises BadImage if it does not fit."""
    kind = options.label_kind
    if kind is MASKS:
        return _fit_mask(ref, mask, image, options)
    further = further_of(ref, options)
    said = further[-1] if further else None
    try:
        return kind.fit(said, image, options.boxes)
    except BadImage as error:
        assert ref.annotations is not None
        raise BadImage(error.reason, f"{ref.annotations.row}: {error.message}") from error


def _fit_mask(
    ref: ImageRef, read: Read | None, image: PreparedImage, options: IngestOptions
) -> Fitted:
    """The same of a mask, which has a file of its own."""
    if ref.mask is None:
        raise BadImage("no_mask", _explain_no_mask(ref, options))
    try:
        if isinstance(read, SkippedFile):
            raise BadImage(BAD_MASK, read.message)
        if isinstance(read, BadImage):
            raise read
        fitted = MASKS.fit(read, image, options.masks)
    except BadImage as error:
        is_own = error.reason in (BAD_MASK, MASK_SIZE)
        reason = "no_mask" if error.reason == MISSING_FILE else BAD_MASK
        message = f"its mask {ref.mask.path!r} {'' if is_own else '- '}{error.message}"
        raise BadImage(error.reason if is_own else reason, message) from error
    source = os.fsencode(ref.mask.path).decode(errors="backslashreplace")
    return dataclasses.replace(fitted, row={**fitted.row, "mask_source": source})


def _is_other_mask(ref: ImageRef, options: IngestOptions) -> bool:
    """Whether it is named as a mask is, but none is paired: of several an image, one is taken."""
    images = None if options.masks is None else options.masks.images
    is_free = ref.mask is None and ref.problem is None and ref.annotations is None
    if images is None or not is_free or names_other_kind(ref.path):
        return False
    is_image = match_template(images, ref.path) is not None
    return has_mask_name(ref.path) or (in_mask_folder(ref.path) and not is_image)


def _explain_no_mask(ref: ImageRef, options: IngestOptions) -> str:
    if ref.annotations is not None:
        return f"{ref.annotations.row}: the column {options.columns.get('mask')!r} is empty"
    assert options.masks is not None
    images, masks = options.masks.images or "", options.masks.masks
    if match_template(images, ref.path) is None:
        way = "see ingest.masks, or leave it out by ingest.leave_out"
        return f"its path is neither an image's, {images}, nor a mask's, {masks}; {way}"
    return f"no file is its mask, which {masks} would fit; see ingest.masks"


def columns_of(ref: ImageRef, options: IngestOptions) -> dict[str, Any]:
    """The columns of a source's row that depend on its path."""
    columns = {
        "path": os.fsencode(ref.path),
        "label": label_of(ref, options),
        "group": group_of(ref, options),
        "forced_split": split_of(ref, options),
    }
    if ref.annotations is not None and ref.annotations.further:
        columns["further"] = json.dumps(further_of(ref, options))
    return columns


def _check_places(row: dict, ref: ImageRef, options: IngestOptions) -> None:
    """Checks that the path names a label, and that a split it names exists."""
    at = "" if ref.annotations is None else f"{ref.annotations.row}: "
    if row["label"] is None:
        missing = f"the path does not match label_pattern {options.label_pattern!r}"
        if ref.annotations is not None and ref.annotations.label is not None:
            missing = f"{at}the column {options.columns['label']!r} is empty"
        raise BadImage("no_label", missing)
    labels = [row["label"]] if (tags := find_tags(ref, options)) is None else tags
    if options.classes is not None and (unknown := set(labels).difference(options.classes)):
        raise BadImage("unknown_label", f"{at}{min(unknown)!r} is not one of ingest.classes")
    if row["forced_split"] is not None and row["forced_split"] not in options.splits:
        known = ", ".join(options.splits)
        raise BadImage(
            "unknown_split",
            f"{at}{row['forced_split']!r} is not one of splits: {known}; set ingest.splits, or "
            "ingest.split_names",
        )


def _keep_copy(row: dict, data: bytes, work_dir: str) -> None:
    """Keeps a quarantined source's bytes, so that it can be looked at in the run's output."""
    if data:
        path = files.join(work_dir, name_copy(hashlib.sha256(data).hexdigest()))
        if not files.is_file(path):
            files.write_file(path, data)


def _image_columns(image: PreparedImage) -> dict:
    columns = {field.name: getattr(image, field.name) for field in dataclasses.fields(image)}
    del columns["encoded"]
    return columns | {"notes": list(image.notes)}
