"""What masks show: the levels or colours of some of them, by which classes are to be named."""

import heapq
from collections.abc import Callable, Iterable, Sequence

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.mask_file import list_values
from image_pipeline.components.meaning.counted_folders import sample_hash

_SAMPLE = 50  # masks that are read
_MOST = 255  # more values than classes that there may be: these are no class ids
_SHOWN = 12
_BINARY = (0, 255)


def read_levels(
    masks: Iterable[str], read: Callable[[str], object], as_colors: bool = False
) -> list[int | str]:
    """The gray levels or palette indices of some masks, or their colours as `#rrggbb`, ascending.

    Args:
      masks: the paths of all of them.
      read: gives one's bytes; anything else if it cannot be read.
      as_colors: whether levels and indices are reported as the colours in which they appear.
    """
    found: set[int | str] = set()
    for path in heapq.nsmallest(_SAMPLE, masks, key=sample_hash):
        data = read(path)
        try:
            found.update(list_values(data, as_colors) if isinstance(data, bytes) else ())
        except BadImage:
            continue  # Ingest will say what is wrong with it.
    return sorted(found, key=lambda value: (isinstance(value, str), value))


def describe_levels(levels: Sequence[int | str]) -> str:
    """The levels in a line."""
    some = ", ".join(map(str, levels[:_SHOWN])) + (", …" if len(levels) > _SHOWN else "")
    return f"{len(levels):,} values: {some}" if levels else "nothing that can be read"


def guess_classes(levels: Sequence[int | str]) -> dict[str, int | str] | None:
    """Names for classes where ids alone will not do: of two levels, and of colours."""
    if tuple(levels) == _BINARY:
        return {"background": 0, "foreground": 255}
    if levels and len(levels) <= _MOST and all(isinstance(each, str) for each in levels):
        return {f"class_{number}": each for number, each in enumerate(levels)}
    return None
