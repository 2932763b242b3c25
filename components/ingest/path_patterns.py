"""What an image's row of a table, or else its path, says of it: its label, its split, its group."""

import re

from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.references import ImageRef


def match_pattern(pattern: str | None, group: str, path: str) -> str | None:
    """The named group of a pattern matched from the start of a path, or None."""
    found = re.match(pattern, path) if pattern else None
    return found[group] if found else None


def label_of(ref: ImageRef, options: IngestOptions) -> str | None:
    """An image's class; "" where the images have no labels, None where none is named."""
    if ref.said is not None and ref.said.label is not None:
        return ref.said.label or None
    if options.path_label_pattern is None:
        return ""
    return _printable(match_pattern(options.path_label_pattern, "label", ref.path))


def group_of(ref: ImageRef, options: IngestOptions) -> str | None:
    """The group that an image belongs to, None where none is named."""
    if ref.said is not None and ref.said.group is not None:
        return ref.said.group or None
    return _printable(match_pattern(options.group_pattern, "group", ref.path))


def split_of(ref: ImageRef, options: IngestOptions) -> str | None:
    """The split that an image is to be in, None where none is named."""
    if ref.said is not None and ref.said.split is not None:
        named = ref.said.split or None
    else:
        named = match_pattern(options.split_pattern, "split", ref.path)
    return None if named is None else options.split_names.get(named, named)


def _printable(text: str | None) -> str | None:
    """Bytes that are not UTF-8 become backslash escapes, since labels are text."""
    return text and decode_name(text)
