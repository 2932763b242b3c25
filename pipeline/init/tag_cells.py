"""Whether cells of text hold several tags each, and what stands between them."""

import collections
from collections.abc import Mapping

_SEPARATORS = (";", "|", ",")
_ENOUGH = 0.5  # of the parts must occur in several cells


def find_separator(cells: Mapping[str, int]) -> str | None:
    """What separates tags, if cells are lists of tags.

    Tags are combined freely: parts of one cell occur in others. Names of classes that have a comma,
    as "tench, Tinca tinca", have parts of their own.

    Args:
      cells: each different one, with how often it occurs.
    """
    for separator in _SEPARATORS:
        found = [{part.strip() for part in cell.split(separator)} - {""} for cell in cells]
        parts = collections.Counter(part for own in found for part in own)
        repeated = sum(count > 1 for count in parts.values())
        if any(len(own) > 1 for own in found) and repeated >= _ENOUGH * len(parts):
            return separator
    return None
