"""What the path of an image says about it: its label, its split, its group."""

import re

from image_pipeline.components.ingest.options import IngestOptions


def match_pattern(pattern: str | None, group: str, path: str) -> str | None:
    """The named group of a pattern matched from the start of a path, or None."""
    found = re.match(pattern, path) if pattern else None
    return found[group] if found else None


def label_of(path: str, options: IngestOptions) -> str | None:
    """The class that a path names; "" where the images have no labels, None where none is named."""
    if options.label_pattern is None:
        return ""
    return match_pattern(options.label_pattern, "label", path)


def split_of(path: str, options: IngestOptions) -> str | None:
    """The split that a path names, None where it names none."""
    named = match_pattern(options.split_pattern, "split", path)
    return None if named is None else options.split_names.get(named, named)
