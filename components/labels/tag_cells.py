"""Whether cells of text hold several tags each, and what stands between them."""

import collections
import json
import shlex
from collections.abc import Iterator, Mapping

_SEPARATORS = (";", "|", ",")
_ENOUGH = 0.5  # of the parts must occur in several cells


COLUMNS = ("tags", "keywords")
"""What people call a column of tags."""


def find_separator(cells: Mapping[str, int], column: str = "") -> str | None:
    """What separates tags, if cells are lists of tags.

    Tags are combined freely: parts of one cell occur in others. Names of classes that have a comma,
    as "tench, Tinca tinca", have parts of their own.

    Args:
      cells: each different one, with how often it occurs.
      column: what it is called: blanks may be between tags where it is called so.
    """
    for separator in (*_SEPARATORS, *((" ",) if column.lower() in COLUMNS else ())):
        found = [{part.strip() for part in cell.split(separator)} - {""} for cell in cells]
        parts = collections.Counter(part for own in found for part in own)
        repeated = sum(count > 1 for count in parts.values())
        if any(len(own) > 1 for own in found) and repeated >= _ENOUGH * len(parts):
            return separator
    return None


def find_joined(classes: Mapping[str, int], column: str) -> Iterator[str]:
    """A sentence on classes that are several names in a cell, if they are."""
    if separator := find_separator(classes, column):
        first = next(name for name in classes if separator in name)
        option = shlex.quote(f"ingest.tag_separator={json.dumps(separator)}")
        yield f"classes of {column!r} are names joined, as {first!r}; {option} makes these tags"
